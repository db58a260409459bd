"""The deep check: what the installed TRL itself raises, warns and trains, seen on a tiny model in a child process."""

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_rlvr.codefolder import write_code_folder
from grpo_rlvr.config.rule import Rule
from grpo_rlvr.config.rules import RULES
from grpo_rlvr.config.signature import parse_signature
from grpo_rlvr.config.versions import release
from grpo_rlvr.interpreter import Interpreter
from grpo_rlvr.models.check import CheckResult, DeepFinding, DeepResult, Finding
from grpo_rlvr.models.setup import Setup

WORKERS = ("config/deep_worker.py", "config/deep_model.py")
# Importing torch, transformers and TRL takes 10 to 20 s on a laptop; the two small runs a few more.
TIME_LIMIT_S = 180.0
MEMORY_LIMIT = 24 * 2**30
NEEDED = ("trl", "transformers", "torch", "datasets")
DOC = "references/rules/README.md"
# What a message of the real package says, and the rule that predicts it.
PATTERNS = (
    (r"GRPOConfig.__init__\(\) got an unexpected keyword", "unknown-kwarg"),
    (
        r"unexpected keyword argument '(prompts|completions|completion_ids|trainer_state|log_\w+)'",
        "reward-without-kwargs",
    ),
    (r"is not a valid \w+, please select", "value-not-allowed"),
    (r"must be divisible by num_generations", "batch-not-divisible-by-group"),
    (r"at least 2 generations", "group-smaller-than-two"),
    (r"can not be both configured", "both-rollout-sizes-set"),
    (r"must be divisible by the global batch size", "rollout-not-whole-micro-batches"),
    (r"global eval batch size", "eval-batch-not-divisible-by-group"),
    (r"number of reward weights", "reward-weights-count"),
    (r"got multiple values for keyword argument", "reward-column-passed-twice"),
    (r"rewards, but", "reward-returns-wrong-shape"),
    (r"PEFT adapter to .lm_head", "adapter-on-output-layer"),
    (r"together with a .peft_config", "adapter-given-twice"),
    (r"optimizer holds no parameter", "adapter-frozen-with-kl"),
    (r"optimizer holds no parameter", "adapter-frozen"),
    (r"does not require grad", "adapter-frozen"),
    (r"other weights than the policy", "reference-reloaded-without-changes"),
    (r"model_init_kwargs.*ignored", "init-kwargs-for-loaded-model"),
    (r"KeyError: 'prompt'", "prompt-column-missing"),
    (r"fp16.*bf16|bf16.*fp16", "fp16-and-bf16"),
    (r"requires? bitsandbytes|bitsandbytes", "optimizer-needs-bitsandbytes"),
    (r"temperature.*strictly positive", "temperature-not-positive"),
    (r"Unknown (loss type|importance)|Invalid value for scale_rewards", "value-not-allowed"),
    (r"missing \d+ required (positional|keyword-only) argument", "reward-required-parameter-missing"),
)
# What the trainer passes to every reward in some version; no column may have such a name.
PASSED = ("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric", "environments")
SEVERITIES: dict[str, Any] = {"raised": "error", "warned": "warning", "observed": "error"}


def deep_check(
    result: CheckResult,
    config: Mapping[str, Any],
    setup: Setup,
    interpreter: Interpreter,
    *,
    root: Path | None = None,
    time_limit_s: float = TIME_LIMIT_S,
) -> DeepResult:
    """Construct the real classes with a config and take one step; new findings are added to `result`.

    Args:
        result: The answer of the rules; what they did not predict is appended to its findings.
        config: Keyword arguments of GRPOConfig.
        setup: What surrounds it; reward specs are built and run, stated signatures are stood in for.
        interpreter: The Python that trains.
        root: Folder that reward files and dataset paths are relative to; the current one by default.
        time_limit_s: Seconds after which the child is ended.
    """
    missing = [name for name in NEEDED if name not in interpreter.packages]
    if missing:
        return DeepResult(
            ran=False,
            reason=f"{interpreter.path} lacks {', '.join(missing)}: '{interpreter.path}' -m pip install "
            f"{' '.join(missing)}",
            interpreter=str(interpreter.path),
        )
    request = build_request(config, setup, (root or Path.cwd()).resolve())
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="grpo-rlvr-deep-", ignore_cleanup_errors=True) as name:
        answer, reason = _run(request, interpreter, Path(name), time_limit_s)
    seconds = round(time.monotonic() - started, 2)
    if answer is None:
        return DeepResult(ran=False, reason=reason, interpreter=str(interpreter.path), seconds=seconds)
    unclear = _unclear_step(request, answer)
    deep = _result(answer, interpreter, result, seconds)
    if deep.reason in (None, unclear, request.get("skip_trainer")):
        add_new_findings(result, deep)
    return deep


def _unclear_step(request: Mapping[str, Any], answer: dict[str, Any]) -> str | None:
    """Turn what a real reward raised on made-up rows into the reason that the step says nothing; None otherwise."""
    raised = [entry for entry in answer["findings"] if (entry["stage"], entry["kind"]) == ("step", "raised")]
    built = any("reward" in entry for entry in request["rewards"])
    if not raised or not built or "columns" in request["dataset"] or "path" in request["dataset"]:
        return None
    answer["findings"] = [entry for entry in answer["findings"] if entry not in raised]
    reason = f"dataset.columns is not stated, so the step says nothing: on made-up rows it raised {raised[0]['text']}"
    answer["reason"] = reason
    return reason


def _result(answer: Mapping[str, Any], interpreter: Interpreter, result: CheckResult, seconds: float) -> DeepResult:
    installed = answer["versions"].get("trl", "0")
    reason = answer.get("reason")
    if release(installed).release[:2] != release(result.trl_version).release[:2]:
        # What another version says is shown, but it is no finding about the checked one.
        reason = f"the installed TRL is {installed}, and the check speaks about {result.trl_version}"
    return DeepResult(
        ran=True,
        reason=reason,
        interpreter=str(interpreter.path),
        versions=answer["versions"],
        stages=answer["stages"],
        findings=[_mapped(entry, result.findings) for entry in answer["findings"]],
        trainable_parameters=answer["trainable"],
        total_parameters=answer["total"],
        reference=answer["reference"],
        seconds=seconds,
    )


def build_request(config: Mapping[str, Any], setup: Setup, root: Path) -> dict[str, Any]:
    """Return what the child needs, as data."""
    processes = setup.get("hardware.num_processes")
    request: dict[str, Any] = {
        "config": dict(config),
        "processes": processes if isinstance(processes, int) and processes > 0 else 1,
        "model": dict(setup.section("model")),
        "dataset": dict(setup.section("dataset")),
        "peft_config": dict(setup.section("peft_config")) if "peft_config" in setup.sections else None,
        "rewards": [_reward(entry) for entry in setup.rewards],
        "root": str(root),
        "memory_limit": MEMORY_LIMIT,
    }
    if "columns" not in request["dataset"]:
        wanted = {name for entry in request["rewards"] for name in entry.get("parameters", {}).get("required", ())}
        # Which columns there are is not known: a stand-in gets what it asks for.
        request["made_up_columns"] = sorted(wanted.difference(PASSED))
    if setup.get("model.class") == "vlm" or {"image", "images"} & set(setup.get("dataset.columns") or ()):
        request["skip_trainer"] = "vision-language models are checked as far as the config: no tiny one is built"
    elif setup.get("dataset.streaming") or setup.get("environment_factory"):
        request["skip_trainer"] = "streaming datasets and environments are checked as far as the config"
    return request


def _reward(entry: Mapping[str, Any]) -> dict[str, Any]:
    if "reward" in entry:
        return {name: entry[name] for name in ("reward", "args", "weight") if name in entry}
    signature = parse_signature(entry.get("signature"))
    stated: dict[str, Any] = {"name": str(entry.get("name") or "reward")}
    if signature.known:
        stated["parameters"] = {
            "required": list(signature.required),
            "optional": list(signature.optional),
            "takes_any": signature.takes_any,
        }
    return stated


def _run(
    request: Mapping[str, Any], interpreter: Interpreter, folder: Path, time_limit_s: float
) -> tuple[dict[str, Any] | None, str | None]:
    code = write_code_folder(folder / "code", WORKERS)
    (folder / "request.json").write_text(json.dumps(request, default=str), encoding="utf-8")
    command = [str(interpreter.path), "-m", "grpo_rlvr.config.deep_worker", "request.json", str(folder / "answer.json")]
    command[3] = str(folder / "request.json")
    log = folder / "log.txt"
    with log.open("wb") as output:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env=child_environment(code, folder),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code_left = child.wait(timeout=time_limit_s)
        except subprocess.TimeoutExpired:
            return None, f"the deep check was ended after {time_limit_s:g} s"
        finally:
            _end(child)
    answer = folder / "answer.json"
    if code_left != 0 or not answer.is_file():
        tail = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
        return None, f"the child ended with code {code_left}: {' | '.join(tail)[-400:]}"
    loaded: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    return loaded, None


def _end(child: "subprocess.Popen[bytes]") -> None:
    # Also what it started itself: data workers of a reward, for example.
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=5)


def child_environment(code: Path, folder: Path) -> dict[str, str]:
    """Return the child's environment: offline, without GPUs, without the credentials of this process."""
    kept = {
        name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR") if name in os.environ
    }
    return {
        **kept,
        "HOME": str(folder),
        "HF_HOME": str(folder / "hf"),
        "PYTHONPATH": str(code),
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "WANDB_MODE": "disabled",
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": "1",
        "ACCELERATE_USE_CPU": "true",
    }


def _mapped(entry: Mapping[str, str], findings: Sequence[Finding]) -> DeepFinding:
    text = entry["text"]
    return DeepFinding(
        stage=entry["stage"],  # type: ignore[arg-type]
        kind=entry["kind"],  # type: ignore[arg-type]
        text=text,
        rule=predicting_rule(text, findings),
    )


def predicting_rule(text: str, findings: Sequence[Finding]) -> str | None:
    """Return the rule that predicts a message: one that fired and fits, else the one known for such messages."""
    fired = {finding.rule for finding in findings}
    known = [rule for pattern, rule in PATTERNS if re.search(pattern, text, re.I)]
    if "reward-without-kwargs" in fired and "unexpected keyword argument" in text and "GRPOConfig" not in text:
        return "reward-without-kwargs"
    for rule in known:
        if rule in fired:
            return rule
    for finding in findings:
        fields = [field for field in finding.fields if "." not in field and "[" not in field]
        if finding.severity != "info" and any(re.search(rf"\b{re.escape(field)}\b", text) for field in fields):
            return finding.rule
    return known[0] if known else None


def add_new_findings(result: CheckResult, deep: DeepResult) -> None:
    """Add what the rules could not tell to the findings, and raise the verdict if need be.

    What a rule is known for appears under that rule; what none predicts as `deep-raised`, `deep-warned` or
    `deep-observed`.
    """
    fired = {finding.rule for finding in result.findings}
    rules = {rule.id: rule for rule in RULES}
    for seen in deep.findings:
        if seen.rule is None or seen.rule not in fired:
            result.findings.append(_new_finding(seen, result, rules.get(seen.rule or "")))
            fired.add(seen.rule or "")
    worst = {finding.severity for finding in result.findings}
    result.verdict = "error" if "error" in worst else "warning" if "warning" in worst else "ok"
    order = {"error": 0, "warning": 1, "info": 2}
    result.findings.sort(key=lambda finding: order[finding.severity])


def _new_finding(seen: DeepFinding, result: CheckResult, rule: Rule | None) -> Finding:
    named = [name for name in result.fixed_config if re.search(rf"\b{re.escape(name)}\b", seen.text)]
    if rule is not None:
        return Finding(
            rule=rule.id,
            severity=rule.severity,
            fields=named or ["config"],
            message=f"Seen with the installed package ({seen.stage}): {seen.text}",
            why=rule.why,
            sources=list(rule.sources),
            doc=rule.doc,
        )
    return Finding(
        rule=f"deep-{seen.kind}",
        severity=SEVERITIES[seen.kind],
        fields=named or ["config"],
        message=f"{seen.stage}: {seen.text}",
        why=f"The installed package {seen.kind} this on a tiny model; no rule predicts it.",
        sources=["deep check"],
        doc=DOC,
    )
