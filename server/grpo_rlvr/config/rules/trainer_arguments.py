"""Arguments of GRPOTrainer itself: names that a release does not have, and functions that it never calls."""

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, rule
from grpo_rlvr.config.tables import is_newer_than_tables
from grpo_rlvr.config.view import ConfigView

ALWAYS = (
    "model", "reward_funcs", "args", "train_dataset", "eval_dataset", "processing_class", "reward_processing_classes",
    "callbacks", "optimizers", "peft_config",
)  # fmt: skip
# Read from the trainer of every TRL release from 0.14 to 1.16.
SINCE = {"rollout_func": "0.25", "tools": "0.26", "environment_factory": "0.29", "quantization_config": "1.8"}
# Names that people give to GRPOTrainer, with what it wants instead.
INSTEAD = {
    "tokenizer": "pass it as processing_class",
    "config": "pass it as args",
    "training_args": "pass it as args",
    "reward_func": "pass it as reward_funcs",
    "reward_functions": "pass it as reward_funcs",
    "reward_model": "pass it as reward_funcs",
    "ref_model": "TRL makes the reference itself from the model",
    "dataset": "pass it as train_dataset",
    "data_collator": "GRPOTrainer brings its own",
    "max_seq_length": "set max_completion_length in GRPOConfig",
    "compute_metrics": "write a reward function with weight 0",
    "formatting_func": "map the dataset to a prompt column",
}
_OLD = {"versions": {"trl": "0.24.0"}}


@rule(
    "trainer-argument-unknown",
    severity="error",
    what="An argument that GRPOTrainer of this release does not have.",
    why="GRPOTrainer raises TypeError when it is built. rollout_func came in 0.25, tools in 0.26, "
    "environment_factory in 0.29, quantization_config in 1.8; tokenizer, ref_model and data_collator it never had.",
    bad=Example({}, {"trainer": {"tools": ["weather"]}, **_OLD}),
    good=Example({}, {"trainer": {"tools": ["weather"]}, "versions": {"trl": "1.0.0"}}),
    sources=("trl wheels 0.14 to 1.16",),
)
def trainer_argument_unknown(facts: Facts) -> Outcome:
    if facts.unsloth or is_newer_than_tables(facts.versions.trl):
        return PASS
    trainer = facts.setup.section("trainer")
    stated = trainer.get("arguments")
    names = [str(name) for name in stated] if isinstance(stated, list | tuple) else []
    names += [name for name in (*SINCE, *INSTEAD) if trainer.get(name) and name not in names]
    if facts.setup.get("environment_factory") and "environment_factory" not in names:
        names.append("environment_factory")
    found = []
    for name in names:
        since = SINCE.get(name)
        if name in ALWAYS or (since and facts.trl_is(f">={since}")):
            continue
        said = f"it exists from TRL {since} on" if since else INSTEAD.get(name, "take it out")
        found.append(
            fail(
                f"trainer.{name}",
                name,
                "trainer.arguments",
                "versions.trl",
                value=name,
                message=f"GRPOTrainer of TRL {facts.versions.trl} has no {name}: {said}.",
            )
        )
    return found or PASS


@rule(
    "rollout-func-not-called",
    severity="error",
    trl=">=0.25,<0.29.1",
    what="A rollout_func where this release generates without it.",
    why="0.25 calls it with a vLLM server alone, 0.26 to 0.29.0 with vLLM alone; elsewhere plain completions are made "
    "instead, without a word, and the fields that the function would have added are missing.",
    bad=Example({"use_vllm": False}, {"trainer": {"rollout_func": "play"}, "versions": {"trl": "0.27.2"}}),
    good=Example({"use_vllm": False}, {"trainer": {"rollout_func": "play"}, "versions": {"trl": "0.29.1"}}),
    sources=("trl wheels 0.25 to 0.29.1",),
)
def rollout_func_not_called(config: ConfigView, facts: Facts) -> Outcome:
    if not facts.setup.get("trainer.rollout_func") or facts.unsloth:
        return PASS
    if facts.server or (facts.use_vllm and facts.trl_is(">=0.26")):
        return PASS
    needs = "vllm_mode='server'" if facts.trl_is("<0.26") else "use_vllm=True"
    return fail(
        "trainer.rollout_func",
        "rollout_func",
        "use_vllm",
        "vllm_mode",
        value=config.effective("use_vllm"),
        message=f"TRL {facts.versions.trl} calls rollout_func with {needs} only, and here generates without it. Set "
        "that, or use trl>=0.29.1.",
    )


def _tools(facts: Facts) -> str | None:
    # The methods of an environment are tools as well.
    paths = ("trainer.tools", "environment_factory")
    return next((path for path in paths if facts.setup.get(path)), None)


@rule(
    "tools-with-vllm-server",
    severity="error",
    trl=">=0.26,<1.14.1",
    what="Tools or an environment with a vLLM server, in a release whose server mode cannot go on after a tool call.",
    why="Up to 0.29.1 NotImplementedError is raised. From 1.0 on the server gets every num_generations-th history "
    "alone, and what it answers is appended to the other ones too: the policy learns from continuations of something "
    "else.",
    bad=Example(
        {"use_vllm": True, "vllm_mode": "server"},
        {"trainer": {"tools": ["weather"]}, "versions": {"trl": "1.13.0", "transformers": "5.8.0"}},
    ),
    good=Example(
        {"use_vllm": True, "vllm_mode": "colocate"},
        {"trainer": {"tools": ["weather"]}, "versions": {"trl": "1.13.0", "transformers": "5.8.0"}},
    ),
    sources=("huggingface/trl#4871", "huggingface/trl#6673", "trl wheels 0.26 to 1.14.1"),
)
def tools_with_vllm_server(facts: Facts) -> Outcome:
    path = _tools(facts)
    if path is None or not facts.server:
        return PASS
    does = "raises NotImplementedError" if facts.trl_is("<1.0") else "mixes up the histories"
    return fail(
        "vllm_mode",
        path,
        path.rpartition(".")[2],
        "versions.trl",
        value="server",
        message=f"TRL {facts.versions.trl} {does} when a tool was called and a vLLM server generates: set "
        "vllm_mode='colocate', or use trl>=1.14.1.",
    )


@rule(
    "tools-with-colocated-vllm",
    severity="error",
    trl=">=0.28,<0.29.1",
    what="Tools or an environment with colocated vLLM, in a release that looks for the engine where it no longer is.",
    why="AttributeError (no attribute 'llm') as soon as a completion calls a tool.",
    bad=Example(
        {"use_vllm": True, "vllm_mode": "colocate"},
        {"trainer": {"tools": ["weather"]}, "versions": {"trl": "0.29.0", "transformers": "5.2.0"}},
    ),
    good=Example(
        {"use_vllm": False},
        {"trainer": {"tools": ["weather"]}, "versions": {"trl": "0.29.0", "transformers": "5.2.0"}},
    ),
    sources=("huggingface/trl#5301", "huggingface/trl#5302"),
)
def tools_with_colocated_vllm(facts: Facts) -> Outcome:
    path = _tools(facts)
    if path is None or not facts.colocate:
        return PASS
    return fail(
        "vllm_mode",
        path,
        path.rpartition(".")[2],
        "versions.trl",
        value="colocate",
        message=f"TRL {facts.versions.trl} raises AttributeError at the first tool call with colocated vLLM: use "
        "trl>=0.29.1, or set use_vllm=False.",
    )


RULES = (trainer_argument_unknown, rollout_func_not_called, tools_with_vllm_server, tools_with_colocated_vllm)
