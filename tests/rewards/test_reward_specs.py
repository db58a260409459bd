"""Rewards as data: specs, users' own files, sources, digests, and the scaffold."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rlvr_rewards
from rlvr_rewards import Exact, RewardSpecError, build, digest, new_reward, reward_names, source_files

OWN = """
import helper
from pkg.deep import FACTOR

TABLE = {}

def plain(completions, scale=1, **columns):
    return [helper.VALUE * FACTOR * scale for _ in completions]

async def later(completions, **columns):
    return [0.5 for _ in completions]

def lazy(completions, **columns):
    import late
    return [late.VALUE for _ in completions]

class Scaled:
    def __init__(self, scale=1):
        self.scale = scale
    def __call__(self, completions, **columns):
        return [self.scale for _ in completions]

ready = Scaled(7)
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with a user's reward file, its helpers, and files it has nothing to do with."""
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    (tmp_path / "helper.py").write_text("VALUE = 2\n", encoding="utf-8")
    (tmp_path / "late.py").write_text("VALUE = 9\n", encoding="utf-8")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "pkg" / "deep.py").write_text("from . import deeper\nFACTOR = deeper.FACTOR\n", encoding="utf-8")
    (tmp_path / "pkg" / "deeper.py").write_text("FACTOR = 5\n", encoding="utf-8")
    (tmp_path / "pkg" / "unused.py").write_text("raise SystemExit\n", encoding="utf-8")
    (tmp_path / "unused.py").write_text("raise SystemExit\n", encoding="utf-8")
    return tmp_path


def test_functions_classes_and_objects_of_a_file_are_built(own: Path) -> None:
    assert build("own.py:plain", own)(completions=["a", "b"]) == [10, 10]
    assert build({"reward": "own.py:plain", "args": {"scale": 3}}, own)(completions=["a"]) == [30]
    assert build({"reward": "own.py:Scaled", "args": {"scale": 4}}, own)(completions=["a"]) == [4]
    assert build("own.py:ready", own)(completions=["a"]) == [7]
    assert build("own.py:lazy", own)(completions=["a"]) == [9]
    assert build("own.py:plain", own).__name__ == "plain"
    assert str(own) not in sys.path


def test_a_coroutine_function_is_awaited_by_trl(own: Path) -> None:
    utils = pytest.importorskip("trl.trainer.utils")
    assert utils.is_async_callable(build("own.py:later", own))
    assert not utils.is_async_callable(build("own.py:plain", own))


def test_an_own_reward_pickles_as_its_spec(own: Path) -> None:
    copy = pickle.loads(pickle.dumps(build({"reward": "own.py:plain", "args": {"scale": 3}}, own)))
    assert copy(completions=["a"]) == [30]


def test_building_again_sees_edits_of_the_file_and_of_helpers(own: Path) -> None:
    assert build("own.py:plain", own)(completions=["a"]) == [10]
    (own / "helper.py").write_text("VALUE = 3\n", encoding="utf-8")
    assert build("own.py:plain", own)(completions=["a"]) == [15]


def test_equal_names_in_two_folders_stay_apart(own: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other folder")
    (other / "own.py").write_text(
        "import helper\ndef plain(completions, **c):\n    return [helper.VALUE]\n", encoding="utf-8"
    )
    (other / "helper.py").write_text("VALUE = 100\n", encoding="utf-8")
    first = build("own.py:plain", own)
    assert build("own.py:plain", other)(completions=["a"]) == [100]
    assert first(completions=["a"]) == [10]


def test_sources_are_what_the_file_imports_from_its_folder(own: Path) -> None:
    names = [path.relative_to(own).as_posix() for path in source_files("own.py:plain", own)]
    assert names == ["helper.py", "late.py", "own.py", "pkg/__init__.py", "pkg/deep.py", "pkg/deeper.py"]
    assert source_files("math") == []
    nested = {"reward": "composite", "args": {"answer": "own.py:plain"}}
    assert len(source_files(nested, own)) == 6


@pytest.mark.parametrize("name", ["own.py", "helper.py", "late.py", "pkg/deep.py", "pkg/deeper.py", "pkg/__init__.py"])
def test_the_digest_changes_with_every_line_that_counts(own: Path, name: str) -> None:
    before = digest(["own.py:plain"], own)
    assert digest(["own.py:plain"], own) == before
    with (own / name).open("a", encoding="utf-8") as file:
        file.write("# a comment\n")
    assert digest(["own.py:plain"], own)["digest"] != before["digest"]


def test_the_digest_does_not_change_with_other_files_or_the_place(
    own: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    before = digest(["own.py:plain"], own)["digest"]
    (own / "unused.py").write_text("# changed\n", encoding="utf-8")
    assert digest(["own.py:plain"], own)["digest"] == before
    moved = tmp_path_factory.mktemp("elsewhere") / "with spaces"
    own.rename(moved)
    assert digest(["own.py:plain"], moved)["digest"] == before


def test_the_digest_changes_with_arguments_weights_order_and_nothing_else() -> None:
    specs: list[list[Any]] = [
        ["math"], [{"reward": "math", "weight": 2}], [{"reward": "math", "args": {"rel_tol": 1e-4}}], ["math", "exact"],
        ["exact", "math"], [{"reward": "composite", "args": {"answer": {"reward": "math", "args": {"kind": "word"}}}}],
        [{"reward": "composite", "args": {"answer": "math"}}],
    ]  # fmt: skip
    digests = [digest(spec)["digest"] for spec in specs]
    assert len(set(digests)) == len(digests)
    assert digest([{"reward": "math", "args": {}, "weight": 1}])["digest"] == digests[0]
    assert digest(['{"reward": "math"}'])["digest"] == digests[0]


def test_the_digest_is_the_same_in_another_process(own: Path) -> None:
    code = f"from rlvr_rewards import digest; print(digest(['own.py:plain'], {str(own)!r})['digest'])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True)
    assert shown.stdout.strip() == digest(["own.py:plain"], own)["digest"]


REFUSED: list[tuple[Any, str]] = [
    ("maths", "did you mean 'math'"),
    ({"reward": "math", "args": {"rel_tolerance": 1}}, "did you mean 'rel_tol'"),
    ({"reward": "math", "arg": {}}, "did you mean 'args'"),
    ({"reward": "math", "weight": "1"}, "finite number"),
    ({"reward": "math", "weight": True}, "finite number"),
    ({"reward": "math", "weight": float("nan")}, "finite number"),
    ({"reward": "math", "args": [1]}, "object of named arguments"),
    ({"args": {}}, "needs 'reward'"),
    (5, "not int"),
    ("{", "not valid JSON"),
    ("own.py", "'own.py:function'"),
    ("own.py:", "must name a function"),
    ("none.py:f", "there is no file 'none.py'"),
    ("own.py:plane", "did you mean 'plain'"),
    ("own.py:TABLE", "dict, not a function"),
    ({"reward": "own.py:plain", "args": {"scales": 1}}, "did you mean 'scale'"),
    ({"reward": "own.py:plain", "args": {"completions": []}}, "no argument 'completions'"),
    ({"reward": "own.py:ready", "args": {"scale": 1}}, "takes no args"),
    ({"reward": "own.py:Scaled", "args": {"scal": 1}}, "did you mean 'scale'"),
    ("broken.py:f", "raised SyntaxError"),
    ("raising.py:f", "raised ZeroDivisionError"),
    ({"reward": "composite", "args": {"answer": "maths"}}, "did you mean 'math'"),
    ({"reward": "length_penalty", "args": {}}, "missing 1 required"),
]


@pytest.mark.parametrize(("spec", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_a_spec_that_fits_nothing_says_what_would(own: Path, spec: Any, message: str) -> None:
    (own / "broken.py").write_text("def f(:\n", encoding="utf-8")
    (own / "raising.py").write_text("1 / 0\n", encoding="utf-8")
    with pytest.raises(RewardSpecError) as raised:
        build(spec, own)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_every_name_of_the_registry_leads_to_a_class() -> None:
    from rlvr_rewards.spec import _reward_class

    for name in reward_names():
        assert _reward_class(name).reward_name == name


def test_the_spec_module_is_standard_library_only() -> None:
    root = str(Path(rlvr_rewards.__file__).parents[1])
    code = (
        "from rlvr_rewards.spec import build, digest; build('exact'); build('format'); digest(['math']); print('fine')"
    )
    shown = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={"PYTHONPATH": root},
        check=True,
    )
    assert shown.stdout == "fine\n"


def run_pytest(file: Path) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
    return subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", cwd=file.parent, check=False
    ).stdout


def test_the_scaffold_works_as_it_stands(tmp_path: Path) -> None:
    folder = tmp_path / "my rewards"
    files = new_reward("valid_sql", folder)
    assert [file.name for file in files] == ["valid_sql_reward.py", "test_valid_sql_reward.py"]
    reward = build("valid_sql_reward.py:ValidSqlReward", folder)
    assert reward(completions=["so\n42", "41"], gold=["42", "42"], other=[1, 2]) == [1.0, 0.0]
    assert pickle.loads(pickle.dumps(reward))(completions=["42"], gold=["42"]) == [1.0]
    ran = run_pytest(files[1])
    assert "5 passed" in ran, ran
    broken = files[0].read_text(encoding="utf-8").replace("answer == gold", "gold in answer")
    files[0].write_text(broken, encoding="utf-8")
    ran = run_pytest(files[1])
    assert "2 failed" in ran, ran


def test_the_scaffold_s_test_serves_a_reward_that_reads_other_columns(tmp_path: Path) -> None:
    reward, test = new_reward("valid-sql", tmp_path)
    assert reward.name == "valid_sql_reward.py"
    reward.write_text(reward.read_text(encoding="utf-8").replace('"gold"', '"answer"'), encoding="utf-8")
    assert "5 passed" in run_pytest(test)


@pytest.mark.parametrize("name", ["", "Valid", "with space", "1st", "class", "../x"])
def test_the_scaffold_refuses_names_that_are_none(tmp_path: Path, name: str) -> None:
    with pytest.raises(RewardSpecError, match="is no name for a reward"):
        new_reward(name, tmp_path)


def test_the_scaffold_never_overwrites(tmp_path: Path) -> None:
    new_reward("mine", tmp_path)
    with pytest.raises(RewardSpecError, match="already there"):
        new_reward("mine", tmp_path)


def test_an_argument_that_is_a_reward_already_is_kept() -> None:
    from rlvr_rewards import Composite

    inner = Exact()
    assert Composite(inner).answer is inner


def test_unit_tests_is_another_name_of_unit_test() -> None:
    assert build({"reward": "unit_tests"}).__name__ == build({"reward": "unit_test"}).__name__
    assert digest([{"reward": "unit_tests"}])["digest"] == digest([{"reward": "unit_test"}])["digest"]


def test_a_composite_hands_optional_columns_to_the_unit_tests_inside_it() -> None:
    inner = {"reward": "unit_tests", "args": {"style": "io"}}
    reward = build(
        {
            "reward": "composite",
            "args": {"answer": inner, "format": {"reward": "format", "args": {"tags": ["answer"], "outside": "tail"}}},
        }
    )
    given = {"tests": [[]], "files": [{"a.txt": "x"}], "entry_point": [None], "other": [1]}
    assert {"tests", "files"} <= set(reward.columns_among(given, 1))  # type: ignore[attr-defined]
    assert "other" not in reward.columns_among(given, 1)  # type: ignore[attr-defined]
