"""The HTML frame: style, header, sections. Everything inline, nothing from outside, no script."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from grpo_rlvr import __version__
from grpo_rlvr.report.parts import prose
from grpo_rlvr.report.sections import Facts, Section, tiles

# The page needs no script and loads nothing, so it may do neither.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(facts: Facts, made: Sequence[Section]) -> str:
    """Return the whole document."""
    style = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")
    name = facts.spec.name or facts.status.run_id
    notes = "".join(f"<li>{prose(note)}</li>" for note in facts.notes)
    body = "".join(
        f'<section id="{section.anchor}"><h2>{escape(section.title)}</h2>{section.html}</section>' for section in made
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(name)} - GRPO report</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><style>{style}</style></head><body><main>'
        f'<header><p class="soft mono">{escape(facts.status.run_id)} &middot; stage '
        f"{escape(facts.status.stage or 'unknown')} &middot; {escape(facts.status.created)}</p>"
        f"<h1>{escape(name)}</h1>{tiles(facts)}</header>"
        f"{f'<ul>{notes}</ul>' if notes else ''}{body}"
        f"<footer>Written by grpo-rlvr-training {__version__} from the run's own files. Metrics can show trouble; none "
        "of them certifies that a model is good.</footer></main></body></html>\n"
    )
