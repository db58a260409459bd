"""Build and warm-start the demo's tiny policy from a seed. Runs in the training interpreter; no weights are shipped.

The task is a letter shift: `shift cabd:` is answered by `<reasoning>cabd</reasoning><answer>dbce</answer>`, each letter
moved on by one, the last of the ring to the first. The warm start is a short supervised fit to a noisy teacher, so that
the policy knows the form and the task and does both only sometimes: exactly the state in which reinforcement learning
has something to do. Errors are drawn independently of the word, so what training removes on some words it removes on
words it has never seen.
"""

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any

LETTERS = "abcdefghijkl"
TAGS = ("<reasoning>", "</reasoning>", "<answer>", "</answer>")
# Shares of the teacher's mistakes, per letter and per answer.
WRONG_LETTER_SHARE = 0.25
MALFORMED_SHARE = 0.3
BATCH = 32
CLEAN_SHARE = 0.5
PEAK_RATE = 2e-3


def word(rng: random.Random) -> str:
    """Draw a word of four letters."""
    return "".join(rng.choices(LETTERS, k=4))


def shift(text: str, by: int = 1) -> str:
    """Move each letter on by `by` places in the ring of `LETTERS`."""
    return "".join(LETTERS[(LETTERS.index(letter) + by) % len(LETTERS)] for letter in text)


def problems(count: int, seed: int, avoid: frozenset[str] = frozenset()) -> list[dict[str, str]]:
    """Draw `count` different problems as rows {prompt, gold, word}, none of whose words is in `avoid`."""
    rng = random.Random(seed)
    rows: dict[str, dict[str, str]] = {}
    while len(rows) < count:
        text = word(rng)
        if text not in avoid:
            rows[text] = {"prompt": f"shift {text}:", "gold": shift(text), "word": text}
    return list(rows.values())


def clean_answer(text: str) -> str:
    """Answer rightly and in form."""
    return f"<reasoning>{text}</reasoning><answer>{shift(text)}</answer>"


def teacher(text: str, rng: random.Random) -> str:
    """Answer like the noisy teacher: each letter sometimes wrong, the form sometimes broken."""
    answer = "".join(
        shift(letter, rng.choice((-1, 0, 2)) if rng.random() < WRONG_LETTER_SHARE else 1) for letter in text
    )
    if rng.random() < MALFORMED_SHARE:
        return rng.choice((answer, f"<answer>{answer}</answer>", f"<reasoning>{text}</reasoning>{answer}"))
    return f"<reasoning>{text}</reasoning><answer>{answer}</answer>"


def build_tokenizer() -> Any:
    """Return a character tokenizer whose four tags are single, ordinary (never stripped) tokens."""
    from tokenizers import AddedToken, Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    pieces = ["<pad>", "<eos>", *TAGS, *dict.fromkeys(LETTERS + "shift: ")]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    inner.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>")
    tags: list[Any] = [AddedToken(tag, special=False, normalized=False) for tag in TAGS]
    tokenizer.add_tokens(tags)
    tokenizer.padding_side = "left"
    return tokenizer


def build_model(vocabulary: int) -> Any:
    """Return a Qwen2-class model of about 0.6 M random parameters."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=vocabulary, hidden_size=128, intermediate_size=384, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=True, pad_token_id=0, eos_token_id=1,
        bos_token_id=None,
    )  # fmt: skip
    return Qwen2ForCausalLM(config)


def warm_start(folder: Path, *, steps: int, seed: int, avoid: frozenset[str], progress: Any = print) -> dict[str, Any]:
    """Fit the model for `steps` batches of 32 and save model and tokenizer to `folder`.

    The first half shows clean answers, from which copying and shifting are learned within seconds; the rest shows
    the noisy teacher, which makes the policy fallible without unlearning the skill.

    Returns:
        Facts for the report: parameters, steps, final loss, seconds.
    """
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()
    torch.manual_seed(seed)
    rng = random.Random(seed)
    tokenizer, started = build_tokenizer(), time.monotonic()
    model = build_model(len(tokenizer))
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=PEAK_RATE, total_steps=steps, pct_start=0.15)
    loss = torch.tensor(0.0)
    for step in range(steps):
        batch: list[tuple[str, str]] = []
        while len(batch) < BATCH:
            text = word(rng)
            if text not in avoid:
                answer = clean_answer(text) if step < steps * CLEAN_SHARE else teacher(text, rng)
                batch.append((f"shift {text}:", answer))
        inputs, labels = _encode(batch, tokenizer, torch)
        loss = model(input_ids=inputs, attention_mask=(inputs != 0).long(), labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if (step + 1) % 100 == 0:
            progress(f"warm start {step + 1}/{steps}: loss {loss.item():.3f}, {time.monotonic() - started:.0f} s")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "steps": steps,
        "final_loss": round(loss.item(), 4),
        "seconds": round(time.monotonic() - started, 1),
    }


def _encode(batch: list[tuple[str, str]], tokenizer: Any, torch: Any) -> tuple[Any, Any]:
    encoded = [(tokenizer(prompt).input_ids, [*tokenizer(answer).input_ids, 1]) for prompt, answer in batch]
    length = max(len(prompt) + len(answer) for prompt, answer in encoded)
    inputs = torch.zeros(len(batch), length, dtype=torch.long)
    labels = torch.full((len(batch), length), -100)
    for row, (prompt, answer) in enumerate(encoded):
        ids = torch.tensor(prompt + answer)
        inputs[row, : len(ids)] = ids
        labels[row, len(prompt) : len(ids)] = ids[len(prompt) :]
    return inputs, labels


def main() -> None:
    """Write the policy and the three problem files, and print one JSON line of facts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seed", type=int, default=3407)
    parser.add_argument("--train-rows", type=int, default=512)
    parser.add_argument("--heldout-rows", type=int, default=128)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    heldout = problems(options.heldout_rows, options.seed + 1)
    avoid = frozenset(row["word"] for row in heldout)
    train = problems(options.train_rows, options.seed + 2, avoid)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, rows in (("train.jsonl", train), ("heldout.jsonl", heldout)):
        lines = [json.dumps({"prompt": row["prompt"], "gold": row["gold"]}) for row in rows]
        (options.out / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    facts = warm_start(options.out / "policy", steps=options.steps, seed=options.seed, avoid=avoid)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
