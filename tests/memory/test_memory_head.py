"""Bytes per logit of the full-logits head, measured again over the operations of TRL's releases."""

import gc
from typing import Any

import pytest

from grpo_rlvr.memory import terms
from grpo_rlvr.memory.inputs import read_plan
from grpo_rlvr.models.setup import parse_setup

TOKENS, VOCAB, HIDDEN = 256, 4096, 16
PEFT_4BIT = {"name": "Qwen/Qwen3-8B", "peft": True}


def _score(logits: Any, ids: Any) -> Any:
    """Log-probabilities of the chosen tokens: gather, then one log-sum-exp a row (16-bit: one softmax a row)."""
    import torch

    if logits.dtype == torch.float32:
        chosen = logits.gather(-1, ids[..., None])[..., 0]
        return chosen - torch.stack([torch.logsumexp(row, -1) for row in logits])
    rows = zip(logits, ids, strict=True)
    return torch.stack([torch.log_softmax(row, -1).gather(-1, chosen[:, None])[:, 0] for row, chosen in rows])


def _bytes_per_logit(in_place: bool, float32: bool, rows: int, grad: bool = True) -> float:
    import torch

    torch.manual_seed(0)
    length = TOKENS // rows
    hidden = torch.randn(rows, length + 1, HIDDEN, dtype=torch.bfloat16, requires_grad=True)
    weight = torch.randn(VOCAB, HIDDEN, dtype=torch.bfloat16)
    ids = torch.randint(0, VOCAB, (rows, length))

    def work() -> None:
        with torch.set_grad_enabled(grad):
            logits = torch.nn.functional.linear(hidden * 1, weight)
            if float32:
                logits = logits.float()
            logits = logits[:, :-1]
            if in_place:
                logits.div_(0.9)
            else:
                logits = logits / 0.9
            scores = _score(logits, ids)
            del logits
            if grad:
                scores.sum().backward()

    gc.collect()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        work()
    live = peak = 0
    for event in profile.profiler.kineto_results.events():  # type: ignore[union-attr]
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    return peak / (TOKENS * VOCAB)


def _estimated(version: str, rows: int, autocast: bool) -> float:
    config = {
        "per_device_train_batch_size": rows, "num_generations": 2, "bf16": autocast,
        "model_init_kwargs": {"dtype": "bfloat16"},
    }  # fmt: skip
    return terms.head_bytes(read_plan(config, parse_setup({"model": PEFT_4BIT}), version))


@pytest.mark.parametrize("rows", [1, 4, 16])
@pytest.mark.parametrize(
    ("version", "in_place"), [("0.29.0", False), ("1.0.0", True), ("1.9.2", True), ("1.12.0", False)]
)
def test_float32_logits_cost_what_the_estimate_says(version: str, in_place: bool, rows: int) -> None:
    measured = _bytes_per_logit(in_place, True, rows)
    assert _estimated(version, rows, autocast=True) == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize("rows", [1, 4])
def test_sixteen_bit_logits_never_cost_more_than_the_estimate_says(rows: int) -> None:
    for version, in_place in (("1.9.2", True), ("1.12.0", False)):
        assert _bytes_per_logit(in_place, False, rows) <= 1.05 * _estimated(version, rows, autocast=False)


def test_the_pass_without_gradients_is_below_the_training_step() -> None:
    from grpo_rlvr.memory.constants import HEAD_NO_GRAD

    assert _bytes_per_logit(False, True, 4, grad=False) == pytest.approx(HEAD_NO_GRAD[4], rel=0.05)


def test_the_head_no_longer_grows_with_the_vocabulary_times_the_tokens_from_1_15() -> None:
    def head(version: str, length: int) -> float:
        config = {"max_completion_length": length}
        return terms.head(read_plan(config, parse_setup({"model": PEFT_4BIT}), version))

    assert head("1.13.0", 4096) / head("1.13.0", 1024) == pytest.approx(4, rel=0.01)
    assert head("1.16.0", 4096) < head("1.13.0", 4096) / 15


def test_logits_stay_sixteen_bit_under_deepspeed_and_nowhere_else() -> None:
    def width(**launch: object) -> int:
        setup = parse_setup({"model": PEFT_4BIT, "hardware": {"gpus": 4}, "launch": launch})
        return terms.logit_width(read_plan({"model_init_kwargs": {"dtype": "bfloat16"}}, setup, "1.12.0"))

    assert width(zero_stage=2, engine="deepspeed") == width(zero_stage=3, engine="deepspeed") == 2
    assert width(engine="ddp") == width(engine="fsdp") == 4


def test_accelerate_wraps_outputs_in_float32_for_no_model_of_deepspeed() -> None:
    import inspect

    from accelerate import Accelerator

    assert "convert_outputs_to_fp32" in inspect.getsource(Accelerator.prepare_model)
    assert "convert_outputs_to_fp32" not in inspect.getsource(Accelerator._prepare_deepspeed)


def _liger(version: str, config: dict[str, Any] | None = None, **sections: Any) -> Any:
    setup = parse_setup({"model": PEFT_4BIT, **sections})
    base = {"use_liger_kernel": True, "model_init_kwargs": {"dtype": "bfloat16"}}
    return read_plan(base | (config or {}), setup, version)


def test_liger_before_0_8_keeps_gradients_of_a_frozen_head_too() -> None:
    plan = _liger("0.26.2")
    vocab, hidden = plan.facts.vocab, plan.facts.hidden
    assert terms.head(plan) == 16 * plan.completion * vocab + 2 * 2 * vocab * hidden
    # TRL 1.4 needs liger-kernel 0.8, which chunks the vocabulary; from 0.8.4 on a frozen head has no gradient.
    chunked, older = _liger("1.9.2"), _liger("1.9.2", versions={"liger_kernel": "0.8.2"})
    assert terms.head(chunked) < 0.3e9
    assert terms.head(older) - terms.head(chunked) == 8 * vocab * hidden


def test_the_log_probability_pass_before_1_14_holds_all_logits_also_with_liger() -> None:
    plan = _liger("1.9.2", {"beta": 0.04})
    assert plan.logprob_pass
    assert terms.head_without_grad(plan) == plan.scored * plan.facts.vocab * 8
    assert terms.head_without_grad(_liger("1.14.0", {"beta": 0.04})) < 1e9


@pytest.mark.parametrize(
    ("version", "config", "adapter", "embedding"),
    [
        ("0.21.0", {"bf16": True}, 4, 4),
        ("0.22.2", {"bf16": True}, 4, 2),
        ("0.22.2", {"fp16": True}, 4, 4),
        ("0.25.1", {"fp16": True}, 4, 4),
        ("0.26.2", {"bf16": True}, 2, 4),
    ],
)
def test_what_is_not_quantised_has_the_width_that_trl_gives_it(
    version: str, config: dict[str, Any], adapter: int, embedding: int
) -> None:
    setup = parse_setup({"model": PEFT_4BIT | {"quantized": "nf4"}})
    plan = read_plan(config | {"model_init_kwargs": {"dtype": "float32"}}, setup, version)
    assert (terms.trained_width(plan), terms.weight_width(plan)) == (adapter, embedding)


def test_a_4bit_model_for_fp16_training_had_its_embedding_made_float32() -> None:
    setup = parse_setup({"model": PEFT_4BIT | {"quantized": "nf4"}})
    for version, width in (("0.21.0", 2), ("0.24.0", 4), ("0.25.1", 2)):
        plan = read_plan({"fp16": True, "model_init_kwargs": {"dtype": "float16"}}, setup, version)
        assert terms.weight_width(plan) == width
