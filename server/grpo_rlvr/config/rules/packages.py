"""Packages beside TRL: versions outside what the TRL release asks for."""

from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, rule
from grpo_rlvr.config.tables import Table
from grpo_rlvr.config.versions import Versions

# vLLM has rules of its own: it is an optional extra whose window TRL checks at run time.
CHECKED = ("transformers", "accelerate", "datasets", "python")


@rule(
    "package-outside-required-range",
    severity="warning",
    what="A package version lies outside the range that this TRL release requires.",
    why="pip would not have installed the two together: imports or renamed arguments may fail.",
    bad=Example({}, {"versions": {"trl": "1.16.0", "transformers": "4.50.3"}}),
    good=Example({}, {"versions": {"trl": "1.16.0", "transformers": "5.24.0"}}),
    sources=("metadata of the TRL wheels",),
)
def package_outside_required_range(versions: Versions, table: Table) -> Outcome:
    wrong = [
        name for name in CHECKED if name in table.requires and versions.within(name, table.requires[name]) is False
    ]
    if not wrong:
        return PASS
    said = ", ".join(f"{name} {versions.get(name)} (needs {table.requires[name]})" for name in wrong)
    fields = [f"versions.{name}" for name in wrong]
    return fail(*fields, "versions.trl", value=versions.get(wrong[0]), message=f"TRL {versions.trl} with {said}.")


RULES = (package_outside_required_range,)
