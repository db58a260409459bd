"""The opening tag that the chat template wrote: it stands at the end of the prompt, and a reward never sees it."""

import re
from collections.abc import Sequence

from grpo_rlvr.inspection.batch_checks import EXCERPT, Check, affordable
from grpo_rlvr.inspection.judging import Judge
from grpo_rlvr.inspection.references import message_text, with_text
from grpo_rlvr.inspection.samples import Samples
from grpo_rlvr.inspection.scoring import Called, RewardChild
from grpo_rlvr.models.score import Attack
from grpo_rlvr.plain import shortened

ROWS, SECONDS = 64, 10.0
# In fewer of the samples a missing tag is the model's own fault.
SHARE = 0.5
OPENING = Check(
    "opening_tag", "reward", "error",
    "with the opening tag put in front the same completions are rewarded: if the chat template writes that tag into "
    "the prompt, the reward must do without it (format: prefilled=true); else the model leaves it out",
)  # fmt: skip
_CLOSING = re.compile(r"</([A-Za-z][\w-]*)>")


def unopened_tag(text: str) -> str | None:
    """Return the first tag that a text closes without having opened it."""
    found = _CLOSING.search(text)
    return found.group(1) if found and f"<{found.group(1)}>" not in text[: found.start()] else None


def opening_tag(
    child: RewardChild, samples: Samples, calls: Sequence[Called], judge: Judge, names: Sequence[str],
    rewarded: Sequence[bool | None],
) -> Attack:  # fmt: skip
    """Score completions that lack their opening tag again with it, and see whether they are rewarded now."""
    texts = [message_text(row["completion"]) for row in samples.rows]
    tags = [unopened_tag(text) for text in texts]
    lacking = [row for row, tag in enumerate(tags) if tag and not rewarded[row]]
    if len(lacking) < SHARE * len(texts):
        return OPENING.report("not_applicable", why="the completions open the tags that they close")
    rows = lacking[: affordable(calls, SECONDS, 1, ROWS)]
    mended = [(row, with_text(samples.rows[row]["completion"], f"<{tags[row]}>{texts[row]}")) for row in rows]
    child.add("opened", samples.batch_of(mended))
    called = [None if call.broken else child.call(i, "opened", explain=False) for i, call in enumerate(calls)]
    if any(call.errors for call in called if call):
        return OPENING.report("failed", tried=len(rows), why="a reward fails on them")
    scores = [[call.scores[place] if call else None for call in called] for place in range(len(rows))]
    won = [place for place, got in enumerate(scores) if judge.rewarded(got)]
    if not won:
        return OPENING.report("held", tried=len(rows), why="the opening tag changes nothing")
    first, got = rows[won[0]], scores[won[0]]
    return OPENING.report(
        "lost", tried=len(rows), bad=len(won), row=first, text=shortened(texts[first], EXCERPT),
        rewards=[names[i] for i in judge.primary if judge.at_top(i, got[i])],
        score=judge.total([call.scores[first] for call in calls]),
    )  # fmt: skip
