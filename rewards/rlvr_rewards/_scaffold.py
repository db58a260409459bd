"""A working start for a reward of one's own: the file, its cases, and a test that runs them."""

import keyword
import re
from pathlib import Path

from rlvr_rewards._core import RewardSpecError

_REWARD = '''"""The reward `{name}`: is the last line of the completion the expected answer?

Range: 0.0 or 1.0. Score None means that the row cannot be graded, for every completion of its prompt; what a model
wrote scores a number, never None, and never raises. How it can be gamed: say here what a policy could do to be paid
for nothing, and add a case to `CASES` that shows it is not.

Use it in TRL as `reward_funcs=[{kind}()]`, or anywhere a reward spec is asked for as `{{"reward": "{file}:{kind}"}}`.
"""

from dataclasses import dataclass

from rlvr_rewards import Completion, Reward, Row, Verdict, after_thinking, text_of


@dataclass(eq=False, kw_only=True)
class {kind}(Reward):
    """1.0 when the last line equals the column `gold`, outer spaces aside; otherwise 0.0."""

    # An argument of the reward: a field with a default. A spec gives it as {{"args": {{"case": false}}}}.
    case: bool = True

    reward_name = "{name}"
    # The data set columns that the reward reads. Others are ignored.
    reads = ("gold",)

    def judge_row(self, row: Row) -> str | None:
        """Say why the row cannot be graded, or None. Look at the row alone, never at a completion."""
        return None if isinstance(row["gold"], str) and row["gold"].strip() else "the gold is missing"

    def judge_output(self, completion: Completion, row: Row) -> Verdict:
        """Score one completion, a text or a list of chat messages, of a row that can be graded."""
        answer = (after_thinking(text_of(completion)) or "").strip().rpartition("\\n")[2].strip()
        if not answer:
            return Verdict(0.0, "no_answer")
        gold = row["gold"].strip()
        same = answer == gold if self.case else answer.casefold() == gold.casefold()
        return Verdict(float(same), "correct" if same else "wrong", answer)


# Completion, row, expected score. Every false positive or negative that is ever found becomes a line here.
CASES = (
    ("I count them.\\n42", {{"gold": "42"}}, 1.0),
    ("41", {{"gold": "42"}}, 0.0),
    ("", {{"gold": "42"}}, 0.0),
    ("<think>42", {{"gold": "42"}}, 0.0),
    ("The answer is 42, or maybe 41.", {{"gold": "42"}}, 0.0),
    ([{{"role": "assistant", "content": "42"}}], {{"gold": "42"}}, 1.0),
    ("42", {{"gold": None}}, None),
)
'''

_TEST = '''"""Tests of the reward `{name}`. Run them with: python -m pytest {test_file}"""

import pickle
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from {module} import CASES, {kind}


def test_every_case_scores_as_expected():
    reward = {kind}()
    for completion, row, expected in CASES:
        assert reward.grade(completion, row).score == expected, (completion, row)


def test_trl_gets_one_score_for_each_completion():
    completions = [completion for completion, _, _ in CASES]
    columns = {{name: [row[name] for _, row, _ in CASES] for name in {kind}.reads}}
    unread = {{"a_column_it_does_not_read": list(range(len(CASES)))}}
    assert {kind}()(completions=completions, **columns, **unread) == [expected for _, _, expected in CASES]


def test_rows_that_cannot_be_graded_are_found_before_training():
    rows = [row for _, row, _ in CASES]
    ungraded = [index for index, (_, _, expected) in enumerate(CASES) if expected is None]
    assert [problem.index for problem in {kind}().check_rows(rows)] == ungraded


def test_the_reward_survives_the_way_into_another_process():
    copy = pickle.loads(pickle.dumps({kind}()))
    assert copy.__name__ == {kind}().__name__


def test_odd_outputs_neither_raise_nor_go_ungraded():
    reward = {kind}()
    row = next(row for _, row, expected in CASES if expected is not None)
    for text in ("\\x00", "\\\\boxed{{", "<think>" * 1000, "9" * 100_000, "\\ud800", "{{" * 5000):
        assert reward.grade(text, row).score == 0.0
'''


def new_reward(name: str, folder: Path | str = ".") -> list[Path]:
    """Write a reward of one's own that works as it stands, and its test.

    Args:
        name: Name of the reward, such as "valid_sql" or "valid-sql"; in snake case it names the files and in camel case
            the class.
        folder: Where to write; made if missing.

    Returns:
        The two files.

    Raises:
        RewardSpecError: The name is none, or a file of that name is already there.
    """
    name = name.replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise RewardSpecError(f"{name!r} is no name for a reward; use small letters, digits and _, such as 'valid_sql'")
    module = name if name.endswith("_reward") else f"{name}_reward"
    target = Path(folder)
    files = [target / f"{module}.py", target / f"test_{module}.py"]
    for file in files:
        if file.exists():
            raise RewardSpecError(f"{file} is already there; take another name or remove it first")
    words = {
        "name": name,
        "module": module,
        "file": files[0].name,
        "test_file": files[1].name,
        "kind": "".join(part.capitalize() for part in module.split("_")),
    }
    target.mkdir(parents=True, exist_ok=True)
    for file, template in zip(files, (_REWARD, _TEST), strict=True):
        file.write_text(template.format(**words), encoding="utf-8")
    return files
