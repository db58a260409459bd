"""Every example in the documents is tried: Python runs, data parses, command lines are ones that the CLI takes."""

import argparse
import doctest
import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from grpo_rlvr.cli.parser import parse

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("references/*.md"), *ROOT.glob("evals/*.md")])
    if path.name != "CHANGELOG.md"
]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# What a fence may hold, and no other language without a check here.
CHECKED = {"python", "json", "toml", "sh", "text"}
VERBS = (
    "check memory explain sample score read new-reward launch status logs stop runs report recommend serve doctor demo"
)
COMMAND = re.compile(rf"grpo-rlvr ((?:{VERBS.replace(' ', '|')})\b[^`\n#]*)")


def fences(path: Path) -> list[tuple[str, str]]:
    """The fenced blocks of a page: language and text."""
    return FENCE.findall(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_fenced_block_is_of_a_kind_that_is_checked(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n```") % 2 == 0
    assert {language for language, _ in fences(path)} <= CHECKED


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_python_block_runs(path: Path) -> None:
    globs: dict[str, object] = {}
    for language, text in fences(path):
        if language != "python":
            continue
        if ">>>" not in text:
            exec(compile(text, path.name, "exec"), globs)
            continue
        example = doctest.DocTestParser().get_doctest(text, globs, path.name, path.name, 0)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        assert runner.run(example, clear_globs=False).failed == 0
        globs.update(example.globs)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_python_hides_outside_a_fence(path: Path) -> None:
    outside = FENCE.sub("", path.read_text(encoding="utf-8"))
    assert not re.search(r"^ {4}(from [\w.]+ import|import \w+$|def \w+\()", outside, re.MULTILINE)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_json_and_toml_block_parses(path: Path) -> None:
    readers = {"json": json.loads, "toml": tomllib.loads}
    for language, text in fences(path):
        if language in readers:
            assert readers[language](text), f"{path.name}: an empty {language} block shows nothing"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_command_line_is_one_that_the_program_takes(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in COMMAND.findall(path.read_text(encoding="utf-8")):
        words = shlex.split(re.sub(r"\s{2,}.*", "", line.split("|")[0]).rstrip("., )`'\""), posix=True)
        try:
            options = parse(words)
        except SystemExit as stopped:
            said = capsys.readouterr().err
            # In running text a verb may stand alone; what it needs is then not the point.
            assert re.search("arguments .*(are|is) required", said), f"{path.name}: grpo-rlvr {line}: {said}"
            assert len(words) == 1 or stopped.code == 2
            continue
        assert isinstance(options, argparse.Namespace)


def test_the_commands_are_really_looked_for() -> None:
    assert len(COMMAND.findall((ROOT / "README.md").read_text(encoding="utf-8"))) > 15


@pytest.mark.parametrize("path", sorted(ROOT.glob("references/**/*.md")), ids=lambda path: path.name)
def test_every_reference_is_small_and_says_on_top_when_to_read_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    # Pieces of words, digits and marks: a tokenizer of 49,000 entries needs 0.97 to 1.25 times as many tokens.
    assert len(re.findall(r"[A-Za-z]{1,6}|\d|[^\sA-Za-z\d]{1,2}", text)) < 4_400
    assert re.search(r"^Read this when ", "\n".join(text.splitlines()[:8]), re.MULTILINE)
