"""What the documents name in code style exists: kwargs, rules, metrics, labels, tools, fields, rewards, attacks."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

import grpo_rlvr.models
import rlvr_rewards
from grpo_rlvr.config import RULES, known_versions, names, table
from grpo_rlvr.metrics.aliases import ALIASES
from grpo_rlvr.metrics.names import QUANTITIES
from grpo_rlvr.models.setup import KNOWN
from grpo_rlvr.tools import TOOLS
from rlvr_rewards._core import REASONS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "SKILL.md", ROOT / "README.md", *sorted(ROOT.glob("references/*.md"))]
# A name of at least two parts that stands alone: no path, no call, no quoted value.
NAME = re.compile(r"(?<![\w./\"'-])[a-z][a-z0-9]*(?:[_/-][a-z0-9_]+)+(?![\w./(-])")
# Names of other people's code, and words that only look like names.
FOREIGN = {
    "offload_optimizer", "offload_param",  # DeepSpeed's settings
    "save_to_disk",  # datasets
    "is_trainable",  # peft
    "skip_special_tokens",  # transformers
    "log_extra", "log_metric", "trainer_state",  # TRL and transformers
    "grpo-rlvr", "grpo-rlvr-training",  # ourselves
    "my_function",  # the user's
    "iter/s",  # a unit
    "vllm-serve",  # TRL's subcommand
}  # fmt: skip


def of_models() -> Iterator[str]:
    """Fields of the models, and the words they may hold."""
    for module in pkgutil.iter_modules(grpo_rlvr.models.__path__):
        for value in vars(importlib.import_module(f"grpo_rlvr.models.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, BaseModel):
                yield from value.model_fields
            yield from (word for word in get_args(value) if isinstance(word, str))


def of_rewards() -> Iterator[str]:
    """Rewards, their arguments and methods, and their reasons."""
    yield from (*rlvr_rewards.reward_names(), *REASONS)
    for name in rlvr_rewards.__all__:
        value = getattr(rlvr_rewards, name)
        yield name
        if isinstance(value, type) and not issubclass(value, Exception):
            yield from (*inspect.signature(value).parameters, *(part for part in dir(value) if part[0] != "_"))


def of_source() -> Iterator[str]:
    """String constants and annotated fields of the code: attacks, refusals and settings are written out there."""
    for folder in ("server", "rewards"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 60:
                    yield node.value
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    yield node.target.id


@cache
def known() -> frozenset[str]:
    """Every name that may be mentioned."""
    found = {name for version in known_versions() for name in table(version).fields}
    found |= set(names.ELSEWHERE) | set(names.MODEL_INIT) | set(names.RENAMED) | set(KNOWN)
    found |= {rule.id for rule in RULES} | set(QUANTITIES) | {alias.name for alias in ALIASES}
    for tool in TOOLS:
        found |= {tool.name, *inspect.signature(tool.fn).parameters}
    return frozenset(found | set(of_models()) | set(of_rewards()) | set(of_source()) | FOREIGN)


def mentioned(path: Path) -> set[str]:
    """The names in code style on a page, outside fenced blocks; paths of this project are another test's."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = {name for code in re.findall(r"`([^`\n]+)`", text) for name in NAME.findall(code)}
    return {name for name in found if not (ROOT / name).exists() and not name.startswith("dist/")}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_name_in_code_style_exists(path: Path) -> None:
    assert sorted(mentioned(path) - known()) == []


def test_names_are_found_and_unknown_ones_are_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("`max_prompt_lenght` and `beta`, `no-such-rule-here`\n", encoding="utf-8")
    assert mentioned(page) - known() == {"max_prompt_lenght", "no-such-rule-here"}
    assert "loss_type" in mentioned(ROOT / "SKILL.md") and "completions/clipped_ratio" in mentioned(ROOT / "SKILL.md")


def test_every_rule_of_the_skill_and_recipe_is_about_a_field_of_todays_trl() -> None:
    fields = table(known_versions()[-1]).fields
    block = re.search(r"```json\n(.+?)```", PAGES[0].read_text(encoding="utf-8"), re.DOTALL)
    assert block
    assert set(ast.literal_eval(block.group(1).replace("true", "True"))) <= set(fields)


def test_the_defaults_that_the_recipe_names_are_those_of_todays_trl() -> None:
    newest = table(known_versions()[-1])
    page = (ROOT / "references" / "recipe.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| `?([\w.]+)`?(?: since ([\d.]+))? \|", page, re.MULTILINE)
    assert len(rows) >= 6
    for name, now, since in rows:
        assert str(newest.default(name)) == now, name
        if since:
            older = [
                v for v in known_versions() if tuple(map(int, v.split(".")[:2])) < tuple(map(int, since.split(".")))
            ]
            before = table(older[-1])
            assert name not in before or str(before.default(name)) != now, f"{name} was {now} before {since} already"
