"""Steps 1 and 3: sample outputs, run the rewards over them, route."""

import json
from typing import Annotated, Any

from pydantic import Field, ValidationError

from grpo_rlvr.errors import InputError
from grpo_rlvr.interpreter import training_interpreter
from grpo_rlvr.models.common import RewardSpec
from grpo_rlvr.models.run import Endpoint, RunStarted, SampleRequest
from grpo_rlvr.models.score import Audit, ScoreResult
from grpo_rlvr.tools.inputs import load_json_file
from grpo_rlvr.tools.registry import Progress
from grpo_rlvr.workspace import Workspace

SPEC_FORMS = 'Give a name, file.py:func, {"reward": ..., "args": {...}, "weight": 1.0}, or a JSON file of such objects.'


def sample_outputs(
    workspace: Workspace,
    prompts: Annotated[
        str | list[dict[str, Any]],
        Field(description="JSONL or parquet file, datasets folder or hub id; or rows with `prompt` and columns."),
    ],
    model: Annotated[str | None, Field(description="Model folder or hub id; or give 'endpoint'.")] = None,
    endpoint: Annotated[Endpoint | None, Field(description="A served model instead of 'model'.")] = None,
    config: Annotated[
        dict[str, Any] | None, Field(description="GRPOConfig arguments whose sampling settings are used.")
    ] = None,
    num_per_prompt: Annotated[int, Field(ge=1, le=1024, description="Completions of each prompt.")] = 8,
    limit: Annotated[int | None, Field(ge=1, description="Use only the first prompts.")] = None,
    seed: Annotated[int, Field(ge=0, description="Seed of the sampling.")] = 0,
    resume: Annotated[str | None, Field(description="Run id of a sampling to continue.")] = None,
) -> RunStarted:
    """Start sampling completions as a background run and return its id at once; does not score them."""
    from grpo_rlvr.runs import start_sampling

    request = SampleRequest(
        prompts=prompts, model=model, endpoint=endpoint, config=config or {}, num_per_prompt=num_per_prompt,
        limit=limit, seed=seed, resume=resume,
    )  # fmt: skip
    return start_sampling(request, workspace)


def score_samples(
    workspace: Workspace,
    rewards: Annotated[
        list[RewardSpec],
        Field(min_length=1, description="Rewards as in training: built in by name, or 'file.py:func'."),
    ],
    path: Annotated[str | None, Field(description="Samples file: JSONL with prompt, completion and columns.")] = None,
    samples: Annotated[list[dict[str, Any]] | None, Field(description="The samples themselves instead.")] = None,
    columns: Annotated[
        dict[str, str] | None, Field(description="Columns to rename before the rewards see them, {from: to}.")
    ] = None,
    config: Annotated[
        dict[str, Any] | None, Field(description="GRPOConfig arguments; num_generations and the cap are read.")
    ] = None,
    progress: Progress | None = None,
) -> ScoreResult:
    """Run the rewards over samples, attack them, and say whether RL applies; does not replace a person's reading."""
    from grpo_rlvr.inspection import score

    if (samples is None) == (path is None):
        raise InputError("give exactly one of 'samples' and 'path'", where="arguments", remedy="Name the samples file.")
    source = samples if samples is not None else workspace.file(path or "", "path")
    refuse_bad_specs(rewards)
    return score(
        source, rewards, workspace, columns=columns, interpreter=training_interpreter(workspace), config=config,
        progress=progress,
    )  # fmt: skip


def audit_rewards(
    workspace: Workspace, rewards: list[RewardSpec], *, path: str, columns: dict[str, str] | None = None
) -> Audit:
    """Attack rewards with completions made from the samples at `path`; nothing is stored for a reading.

    Raises:
        InputError: samples or specs that cannot be used. NotFoundError: no such file.
    """
    from grpo_rlvr import inspection

    refuse_bad_specs(rewards)
    source = workspace.file(path, "path")
    return inspection.audit_rewards(
        source, rewards, workspace, columns=columns, interpreter=training_interpreter(workspace)
    )


def refuse_bad_specs(rewards: list[RewardSpec]) -> None:
    """Build the library's own rewards once, so that a wrong name or argument is refused before anything is stored.

    Specs that name a file hold someone's code and are only ever built in a child process.

    Raises:
        InputError: no such reward or argument; the nearest one is named.
    """
    from rlvr_rewards import RewardSpecError
    from rlvr_rewards.spec import build

    for index, spec in enumerate(rewards):
        if ".py:" in spec.model_dump_json():
            continue
        try:
            build(spec.model_dump())
        except RewardSpecError as error:
            raise InputError(str(error), where=f"rewards[{index}]", remedy="Mend the spec.") from None


def parse_reward_specs(workspace: Workspace, texts: list[str], argument: str = "--reward") -> list[RewardSpec]:
    """Read reward specs from a command line: a name, `file.py:func`, a JSON object, or a JSON or YAML file of specs.

    Raises:
        InputError: not a spec, or a file that holds none. NotFoundError: no such file.
    """
    return [spec for text in texts for spec in _specs_of(workspace, text, argument)]


def _specs_of(workspace: Workspace, text: str, argument: str) -> list[RewardSpec]:
    where = argument
    try:
        if text.lstrip().startswith(("{", "[")):
            raw = json.loads(text)
        elif text.lower().endswith((".json", ".yaml", ".yml")):
            raw, where = load_json_file(workspace, text, argument), f"{argument} {text}"
        else:
            raw = text
        found = raw if isinstance(raw, list) else [raw]
        if not found:
            raise InputError("there is no spec in it", where=where, remedy=SPEC_FORMS)
        return [RewardSpec.model_validate(one) for one in found]
    except json.JSONDecodeError as error:
        raise InputError(f"{text[:120]!r} is not JSON: {error}", where=where, remedy=SPEC_FORMS) from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        said = f"{field}: {first['msg'].lower()}" if field else first["msg"].lower()
        raise InputError(f"no reward spec ({said})", where=where, remedy=SPEC_FORMS) from None
