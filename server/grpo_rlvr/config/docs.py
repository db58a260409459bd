"""Pages made from the rules: one a family, each rule with an anchor that findings link to."""

import json
from collections.abc import Iterator
from pathlib import PurePosixPath

from grpo_rlvr.config.history import PAGE, arguments_page
from grpo_rlvr.config.rule import Example, Rule
from grpo_rlvr.config.rules import RULES
from grpo_rlvr.config.tables import known_versions
from grpo_rlvr.errors import NotFoundError, nearest

GENERATED = "<!-- Generated from server/grpo_rlvr/config/rules by scripts/docs; do not edit. -->"
FOLDER = PurePosixPath("references/rules")
WORDS = {
    "error": "fails, or trains the wrong thing",
    "warning": "probably wastes the run",
    "info": "surprising but legitimate",
}


def explain(rule_id: str) -> str:
    """Return a rule's page as Markdown.

    Raises:
        NotFoundError: no rule has this id; names the nearest one.
    """
    for rule in RULES:
        if rule.id == rule_id:
            return _section(rule)
    raise NotFoundError(
        f"no rule '{rule_id[:80]}'{nearest(rule_id, [rule.id for rule in RULES])}",
        where="rule id",
        remedy=f"All rules are listed in {FOLDER / 'README.md'}.",
    )


def render_docs() -> dict[str, str]:
    """Return every generated page: path relative to the project root -> text."""
    pages = {str(FOLDER / "README.md"): _index(), PAGE: arguments_page()}
    for family, rules in _families():
        pages[str(FOLDER / f"{family}.md")] = _page(family, rules)
    return pages


def _families() -> Iterator[tuple[str, list[Rule]]]:
    families: dict[str, list[Rule]] = {}
    for rule in RULES:
        families.setdefault(rule.family, []).append(rule)
    yield from families.items()


def _title(family: str) -> str:
    words = {"kl": "KL", "vllm": "vLLM", "peft": "PEFT", "eos": "EOS"}
    text = " ".join(words.get(word, word) for word in family.split("-"))
    return text[0].upper() + text[1:] if text[0].islower() and not text.startswith("vLLM") else text


def _index() -> str:
    versions = known_versions()
    lines = [
        "# Rules of check_config",
        "",
        GENERATED,
        "",
        "Read this when looking for a rule by its subject; a finding names its page itself.",
        "",
        f"{len(RULES)} rules over a config and its setup, for TRL {versions[0]} to {versions[-1]}. An error fails or "
        "trains the "
        "wrong thing, a warning probably wastes the run, an info is surprising but legitimate. `grpo-rlvr explain "
        "RULE` prints one.",
    ]
    for family, rules in _families():
        lines += ["", f"## [{_title(family)}]({family}.md)", ""]
        for severity in WORDS:
            ids = [f"`{rule.id}`" for rule in rules if rule.severity == severity]
            if ids:
                lines.append(f"- {severity}: {', '.join(ids)}")
    return "\n".join(lines) + "\n"


def _page(family: str, rules: list[Rule]) -> str:
    when = "Read this when a finding names one of these rules. [All rules](README.md)"
    head = [f"# {_title(family)}", "", GENERATED, "", when, ""]
    return "\n".join(head) + "\n" + "\n".join(_section(rule) for rule in rules)


def _section(rule: Rule) -> str:
    lines = [
        f"## {rule.id}",
        "",
        f"**{rule.severity}** ({WORDS[rule.severity]}) · TRL {_range(rule)}",
        "",
        rule.what,
        "",
        f"Why: {rule.why}",
        "",
        "Bad:",
        "",
        *_example(rule.bad),
        "",
        "Good:",
        "",
        *_example(rule.good),
        "",
    ]
    if rule.fix_safety:
        lines += [f"Fix: {rule.fix_safety}", ""]
    if rule.requires:
        lines += [f"Not judged when one of these failed: {', '.join(f'`{name}`' for name in rule.requires)}.", ""]
    lines += [f"Sources: {'; '.join(rule.sources)}", ""]
    return "\n".join(lines)


def _range(rule: Rule) -> str:
    return rule.trl.replace(">=", "≥ ").replace("<", "< ").replace(",", ", ") if rule.trl else "all"


def _example(example: Example) -> list[str]:
    parts = {"config": dict(example.config), **({"setup": dict(example.setup)} if example.setup else {})}
    return ["```json", json.dumps(parts, indent=2, ensure_ascii=False), "```"]
