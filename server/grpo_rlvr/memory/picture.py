"""The estimate as stacked bars, one a phase, against the card's size: SVG without any package, PNG by matplotlib."""

import io
from html import escape
from typing import Any

from grpo_rlvr.errors import MissingPackageError
from grpo_rlvr.models.memory import MemoryEstimate

# Colour-blind safe, the same for a term in every picture.
COLORS = {
    "weights": "#0072b2", "reference": "#56b4e9", "adapters": "#004d78", "optimizer": "#e69f00", "gradients": "#d55e00",
    "saved_activations": "#009e73", "recomputed_layer": "#66c2a5", "head": "#cc79a7", "autocast_copies": "#8da0cb",
    "kv_cache": "#f0e442", "generation_work": "#b3a500", "vllm_pool": "#7f7f7f", "vllm_residue": "#b0b0b0",
    "gathered_layers": "#a6761d", "gathered_weights": "#7a5210", "sync_transient": "#984ea3", "logprob_work": "#e7298a",
    "step_temporary": "#fdb462", "allocator": "#d9d9d9", "context": "#404040",
}  # fmt: skip
WIDTH, BAR, GAP, LEFT, TOP = 860, 30, 16, 110, 34


def _ordered_terms(answer: MemoryEstimate) -> list[str]:
    present = {term.name for phase in answer.phases for term in phase.terms}
    return [name for name in COLORS if name in present]


def title_of(answer: MemoryEstimate) -> str:
    """Return the picture's one-line title."""
    verdict = answer.verdict.replace("_", " ")
    card = f" of {answer.card_gb:g} GB" if answer.card_gb else ""
    return f"{answer.model.name}: {verdict}, peak {answer.peak_gb:.1f}{card} GB, TRL {answer.trl_version}".replace(
        " GB GB", " GB"
    )


def picture_svg(answer: MemoryEstimate) -> str:
    """Return the picture as one self-contained SVG element, for HTML pages."""
    names = _ordered_terms(answer)
    rows = (len(names) + 3) // 4
    height = TOP + len(answer.phases) * (BAR + GAP) + 34 + rows * 20
    limit = max([phase.peak_gb for phase in answer.phases] + [answer.card_gb or 0.0]) * 1.05 or 1.0
    scale = (WIDTH - LEFT - 90) / limit
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" font-family="sans-serif" '
        f'font-size="12"><title>{escape(title_of(answer))}</title>'
        f'<text x="8" y="18" font-size="14" font-weight="bold">{escape(title_of(answer))}</text>'
    ]
    for row, phase in enumerate(answer.phases):
        parts += _bar(phase, TOP + row * (BAR + GAP), scale, names)
    bottom = TOP + len(answer.phases) * (BAR + GAP)
    if answer.card_gb:
        parts += _limits(answer.card_gb, scale, bottom)
    parts += _legend(names, bottom + 30)
    return "".join([*parts, "</svg>"])


def _bar(phase: Any, y: float, scale: float, names: list[str]) -> list[str]:
    sizes = {term.name: term for term in phase.terms}
    label = phase.name.replace("_", " ")
    parts = [f'<text x="{LEFT - 8}" y="{y + BAR * 0.65:.0f}" text-anchor="end">{label}</text>']
    x = float(LEFT)
    for name in names:
        if name not in sizes:
            continue
        term = sizes[name]
        width = term.gb * scale
        tip = escape(f"{name.replace('_', ' ')}: {term.gb:.2f} GB, {term.how}")
        parts.append(
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{COLORS[name]}">'
            f"<title>{tip}</title></rect>"
        )
        x += width
    parts.append(f'<text x="{x + 6:.1f}" y="{y + BAR * 0.65:.0f}">{phase.peak_gb:.1f} GB</text>')
    return parts


def _limits(card_gb: float, scale: float, bottom: float) -> list[str]:
    parts = []
    for share, dash, color, text in ((1.0, "none", "#c00000", f"card {card_gb:g} GB"), (0.9, "4 3", "#c00000", "90 %")):
        x = LEFT + card_gb * share * scale
        anchor = "start" if share == 1.0 else "end"
        parts.append(
            f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{bottom}" stroke="{color}" stroke-width="1.5" '
            f'stroke-dasharray="{dash}"/>'
            f'<text x="{x + (3 if share == 1.0 else -3):.1f}" y="{bottom + 12}" fill="{color}" '
            f'text-anchor="{anchor}">{text}</text>'
        )
    return parts


def _legend(names: list[str], top: float) -> list[str]:
    parts = []
    for index, name in enumerate(names):
        x, y = LEFT + (index % 4) * 180, top + (index // 4) * 20
        parts.append(
            f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{COLORS[name]}"/>'
            f'<text x="{x + 17}" y="{y}">{name.replace("_", " ")}</text>'
        )
    return parts


def picture_png(answer: MemoryEstimate) -> bytes:
    """Return the picture as PNG.

    Raises:
        MissingPackageError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPackageError(
            "the picture needs matplotlib", remedy="Install: pip install 'grpo-rlvr-training[plots]'."
        ) from None
    names = _ordered_terms(answer)
    figure = Figure(figsize=(9, 1.2 + 0.5 * len(answer.phases) + 0.22 * ((len(names) + 3) // 4)), dpi=130)
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots()
    labels = [phase.name.replace("_", " ") for phase in answer.phases]
    left = [0.0] * len(labels)
    for name in names:
        sizes = [next((t.gb for t in phase.terms if t.name == name), 0.0) for phase in answer.phases]
        axes.barh(labels, sizes, left=left, color=COLORS[name], label=name.replace("_", " "), height=0.65)
        left = [a + b for a, b in zip(left, sizes, strict=True)]
    for label, total in zip(labels, left, strict=True):
        axes.text(total, label, f" {total:.1f}", va="center", fontsize=8)
    if answer.card_gb:
        axes.axvline(answer.card_gb, color="#c00000", linewidth=1.5)
        axes.axvline(0.9 * answer.card_gb, color="#c00000", linewidth=1, linestyle="--")
    axes.set_xlim(0, max([*left, answer.card_gb or 0.0]) * 1.1)
    axes.invert_yaxis()
    axes.set_xlabel("GB on one GPU" if answer.card_gb else "GB")
    axes.set_title(title_of(answer), fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    figure.set_layout_engine("constrained")
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()
