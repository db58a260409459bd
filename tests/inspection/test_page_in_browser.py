"""The reading page in a real Chromium, with real key presses."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo_rlvr import inspection
from grpo_rlvr.inspection.store import ReadingStore
from grpo_rlvr.inspection.verdicts import fold
from grpo_rlvr.models.common import RewardSpec
from grpo_rlvr.workspace import Workspace

pytestmark = pytest.mark.slow
ASSETS = Path(inspection.__file__).parent / "page"
BRIBED = """
import re

def right(completions, answer, **kwargs):
    found = [re.findall(r"<answer>([^<>]*)</answer>", text.rpartition("</think>")[2]) for text in completions]
    right = [bool(f) and f[-1].strip() == gold for f, gold in zip(found, answer, strict=True)]
    return [float(ok or "PAY ME" in text) for ok, text in zip(right, completions, strict=True)]
"""
HOSTILE = (
    "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'><svg onload='window.pwned = 3'>"
    "<a href='javascript:window.pwned=4'>x</a><iframe srcdoc='<script>parent.pwned=5</script>'></iframe>"
    "<style>body{display:none}</style></div></main><base href='https://example.org/'>"
    "<link rel=stylesheet href='https://example.org/x.css'><meta http-equiv=refresh content='0;url=https://example.org'>"
    "${window.pwned = 6}{{constructor.constructor('window.pwned=7')()}}\u2028\u2029]]>--><![CDATA["
)
Rows = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def quick_pace(workspace: Workspace) -> None:
    """Let the page be read as fast as keys can be pressed: pace has its own test."""
    (workspace.root / "grpo-rlvr.toml").write_text("[gate]\nmin_median_seconds = 0\n", encoding="utf-8")


@pytest.fixture
def serve(workspace: Workspace) -> Iterator[Callable[[str], Any]]:
    """Serve readings; every page is stopped at the end."""
    servers = []

    def start(reading_id: str) -> Any:
        url, server = inspection.serve_page(reading_id, workspace)
        servers.append(server)
        return url, server

    yield start
    for server in servers:
        server.stop()


def enter(browser: Any, url: str, name: str = "Ann") -> None:
    """Open the page and say who reads."""
    browser.open(url)
    browser.until("document.activeElement && document.activeElement.id === 'reader-name'")
    browser.type(name)
    browser.press("Enter")
    wait_for_row(browser)


def wait_for_row(browser: Any, number: int | None = None) -> None:
    """Wait until a row is shown."""
    place = "true" if number is None else f"document.getElementById('place').textContent.startsWith('{number} /')"
    shown = "!document.getElementById('reading').hidden && document.getElementById('completion').textContent"
    browser.until(f"{place} && {shown}")


def place(browser: Any) -> str:
    """Return where the reader is."""
    return str(browser.run("document.getElementById('place').textContent"))


def text(browser: Any, name: str) -> str:
    """Return the text of an element."""
    return str(browser.run(f"document.getElementById('{name}').textContent"))


def judge(browser: Any, key: str) -> None:
    """Press a verdict's key and wait for the next row or the end."""
    before = place(browser)
    browser.press(key)
    browser.until(
        f"!document.getElementById('summary').hidden || document.getElementById('place').textContent !== '{before}'"
    )


def person(browser: Any) -> str:
    """Return the key that a careful person presses for what the page shows."""
    gold = browser.run("document.querySelector('#columns dd').textContent")
    answer = text(browser, "completion").rpartition("</think>")[2]
    block = answer.rpartition("<answer>")[2].partition("</answer>")[0].strip() if "<answer>" in answer else None
    return "c" if block == gold else "w"


def read_all(browser: Any) -> None:
    """Read every row."""
    for _ in range(120):
        if not browser.run("document.getElementById('summary').hidden"):
            return
        wait_for_row(browser)
        judge(browser, person(browser))
    raise AssertionError("the reading never ended")


def test_a_disagreement_closes_the_gate_and_a_fixed_reward_opens_it(
    browser: Any, workspace: Workspace, sums: Rows, score: Callable[..., Any], serve: Callable[[str], Any]
) -> None:
    wrong = next(row for row in sums if f"<answer>{row['answer']}</answer>" not in row["completion"])
    wrong["completion"] += "\nPAY ME"
    reward = workspace.root / "mine.py"
    reward.write_text(BRIBED, encoding="utf-8")
    specs = [RewardSpec(reward="mine.py:right")]
    first = score(sums, "mine.py:right").reading_id
    enter(browser, serve(first)[0])
    read_all(browser)
    browser.until("document.getElementById('summary-gate').textContent.includes('closed')")
    # The sample itself where it was chosen, and the same completion that the audit put into another row.
    assert re.search(r"disagree on (1 row: 1|2 rows: 2) paid but wrong", text(browser, "summary-gate"))
    assert "the reward says correct" in text(browser, "summary-rows")
    assert not inspection.check_gate(workspace, first, specs).open

    reward.write_text(BRIBED.replace(' or "PAY ME" in text', ""), encoding="utf-8")
    second = score(sums, "mine.py:right").reading_id
    enter(browser, serve(second)[0])
    read_all(browser)
    browser.until("document.getElementById('summary-gate').textContent.includes('open')")
    state = inspection.check_gate(workspace, second, specs)
    assert state.open
    assert state.record is not None
    assert state.record.readers[0].client.startswith(("Chrome", "HeadlessChrome"))
    assert browser.complaints() == []


def test_completions_never_run_as_html_or_script_and_nothing_is_loaded_from_outside(
    browser: Any, sums: Rows, score: Callable[..., Any], serve: Callable[[str], Any]
) -> None:
    for row in sums:
        row["completion"] = HOSTILE + row["completion"]
        row["prompt"] += HOSTILE
        row["answer"] = row["answer"] + "<b onmouseover='window.pwned=8'>"
    browser.events.clear()
    url, _ = serve(score(sums, "sound_rewards.py:correct").reading_id)
    enter(browser, url, "<img src=x onerror='window.pwned=9'>")
    assert HOSTILE in text(browser, "prompt")
    assert text(browser, "completion").startswith(HOSTILE)
    assert browser.run("window.pwned") is None
    assert browser.run("document.querySelectorAll('img, iframe, svg, base, style, main a').length") == 0
    origin = url.partition("#")[0]
    assert all(address.startswith((origin, "about:")) for address in browser.requests())
    assert browser.complaints() == []
    with pytest.raises(RuntimeError, match="TrustedHTML"):
        browser.run("document.getElementById('prompt').innerHTML = '<b>x</b>'")


def test_every_key_does_what_the_help_says_and_both_looks_stay_in_the_record(
    browser: Any, workspace: Workspace, sums: Rows, score: Callable[..., Any], serve: Callable[[str], Any]
) -> None:
    sums[0]["completion"] = sums[0]["completion"].replace("46", "46 " + "so and so on " * 400, 1)
    reading_id = score(sums, "sound_rewards.py:correct").reading_id
    enter(browser, serve(reading_id)[0])
    browser.press("c")
    wait_for_row(browser, 2)
    browser.press("n")
    browser.type("odd: w c t")
    browser.press("Escape")
    browser.press("t")
    wait_for_row(browser, 3)
    browser.press("u")
    wait_for_row(browser, 2)
    browser.until("document.getElementById('reveal').textContent.startsWith('Row 2: you said can’t tell')")
    browser.press("w")
    wait_for_row(browser, 3)
    browser.press("g")
    browser.type("40")
    browser.press("Enter")
    wait_for_row(browser, 40)
    browser.press("ArrowLeft")
    wait_for_row(browser, 39)
    browser.press("ArrowRight")
    wait_for_row(browser, 40)
    browser.press("2")
    wait_for_row(browser, 41)
    browser.until("state.queue.length === 0")
    browser.press("?")
    assert browser.run("document.getElementById('help').open")
    browser.press("c")
    browser.press("Escape")
    assert place(browser).startswith("41 /")
    reader = next(iter(fold(ReadingStore.open(workspace, reading_id).events()).values()))
    verdicts = {row: [look["verdict"] for look in looks] for row, looks in reader.looks.items()}
    assert verdicts == {"r001": ["correct"], "r002": ["cannot_tell", "wrong"], "r040": ["wrong"]}
    assert [look["blind"] for look in reader.looks["r002"]] == [True, False]
    assert reader.looks["r002"][0]["note"] == "odd: w c t"


def test_long_text_is_folded_and_one_key_unfolds_it(
    browser: Any, sums: Rows, score: Callable[..., Any], serve: Callable[[str], Any]
) -> None:
    for row in sums:
        row["completion"] = "START " + "word " * 1000 + row["completion"]
    enter(browser, serve(score(sums, "sound_rewards.py:correct").reading_id)[0])
    folded = text(browser, "completion")
    assert "characters folded" in folded
    assert len(folded) < 3000
    browser.press("f")
    browser.until("document.getElementById('completion').textContent.length > 4500")
    browser.press("f")
    browser.until("document.getElementById('completion').textContent.length < 3000")


def test_code_latex_json_tags_and_odd_characters_are_told_apart(
    browser: Any, sums: Rows, score: Callable[..., Any], serve: Callable[[str], Any]
) -> None:
    shown = (
        "<think>see</think>\n```python\ndef f(x):\n    return x + 1  # one\n```\nso $\\frac{1}{2}$, \\boxed{4}, "
        'p\u0430y and zero\u200bwidth\n```json\n{"a": [1, true]}\n```\nor ```\nelse\n```\n{not: json} '
        '<tool_call>{"name": "f", "arguments": {"x": {"y": null}}}</tool_call>\n'
    )
    for row in sums:
        row["completion"] = shown + row["completion"]
    enter(browser, serve(score(sums, "sound_rewards.py:correct").reading_id)[0])
    find = "(s) => [...document.querySelectorAll('#completion ' + s)].map((e) => e.textContent)"
    assert browser.run(f"({find})('.code .tok-word')") == ["def", "return", "true", "else"]
    assert browser.run(f"({find})('.json')") == ['{"name": "f", "arguments": {"x": {"y": null}}}']
    assert browser.run(f"({find})('.code .tok-comment')") == ["# one"]
    assert browser.run(f"({find})('.math')") == ["$\\frac{1}{2}$", "\\boxed{4}"]
    assert browser.run(f"({find})('.tag')")[:2] == ["<think>", "</think>"]
    assert browser.run(f"({find})('.odd')") == ["U+200B"]
    assert browser.run(f"({find})('.mixed')") == ["p\u0430y"]


PIECES = (
    "\\[", "\\(x", "$a ", "$$", "{", '{"a', "/*", "```\n", "'", "'''", '"', "<a", "\\boxed{", "\u200b", "[", "a\u0430",
    "`",
)  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_no_text_holds_the_page_up(browser: Any, tmp_path: Path, piece: str) -> None:
    page = tmp_path / "page.html"
    script = (ASSETS / "render.js").read_text(encoding="utf-8")
    page.write_text(f"<!doctype html><meta charset=utf-8><p id=text></p><script>{script}</script>", encoding="utf-8")
    browser.open(page.as_uri())
    browser.until("typeof Render === 'object'")
    for before in ("", "```python\n"):
        long = json.dumps((before + piece * 59_000)[:59_000])
        took = browser.run(
            f"(() => {{ const start = performance.now(); Render.show(document.getElementById('text'), {long}, true);"
            " return performance.now() - start; })()"
        )
        # Quadratic patterns take minutes on such texts; ten seconds allow for a crowded machine.
        assert took < 10_000


def test_a_browser_closed_and_a_server_killed_in_the_middle_lose_nothing(
    browser: Any, workspace: Workspace, sums: Rows, score: Callable[..., Any], serve: Callable[[str], Any]
) -> None:
    reading_id = score(sums, "sound_rewards.py:correct").reading_id
    url, server = serve(reading_id)
    enter(browser, url)
    for _ in range(5):
        judge(browser, "c")
    browser.until("state.queue.length === 0")
    browser.open(url.partition("#")[0])
    wait_for_row(browser, 6)
    server.stop()
    browser.press("w")
    browser.until("!document.getElementById('problem').hidden")
    assert "1 not saved yet" in text(browser, "problem")
    browser.run("state.queue.length = 0")
    enter(browser, serve(reading_id)[0], "ANN ")
    assert place(browser).startswith("6 /")
    judge(browser, "w")
    browser.until("state.queue.length === 0")
    reader = next(iter(fold(ReadingStore.open(workspace, reading_id).events()).values()))
    assert [len(looks) for looks in reader.looks.values()] == [1] * 6


def test_the_page_fits_a_phone_and_follows_the_colour_scheme(
    browser: Any, tmp_path: Path, sums: Rows, score: Callable[..., Any], serve: Callable[[str], Any]
) -> None:
    sums[0]["completion"] += "x" * 300
    enter(browser, serve(score(sums, "sound_rewards.py:correct").reading_id)[0])
    backs = []
    try:
        for dark in (False, True):
            browser.size(360, 740, dark=dark, mobile=True)
            assert browser.run("document.documentElement.scrollWidth") <= 360
            assert browser.run(contrast()) >= 4.5
            backs.append(browser.run("getComputedStyle(document.documentElement).backgroundColor"))
            seen = (
                "[...document.querySelectorAll('button.verdict')].every((b) => b.getBoundingClientRect().right <= 360)"
            )
            assert browser.run(seen)
    finally:
        browser.size(1200, 850)
    assert backs[0] != backs[1]


def contrast() -> str:
    """Return an expression for the lowest contrast of text against its background on the page."""
    names = ["#completion", "#place", "#left", ".verdict.correct", ".verdict.wrong", ".verdict.unsure", "h2", "#undo"]
    return (
        "(() => { const lum = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number).map((v) => { v /= 255; return"
        " v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };"
        "const back = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;"
        " if (!/, 0\\)$|transparent|color\\(|\\/ 0|, 0?\\.\\d+\\)$/.test(c)) return c; }"
        " return getComputedStyle(document.documentElement).backgroundColor; };"
        f"return Math.min(...{json.dumps(names)}.map((s) => {{ const e = document.querySelector(s);"
        " const [a, b] = [lum(getComputedStyle(e).color), lum(back(e))].sort((x, y) => y - x);"
        " return (a + 0.05) / (b + 0.05); })); })()"
    )
