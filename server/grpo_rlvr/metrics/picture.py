"""The few curves that carry a verdict: a PNG by matplotlib, the same as SVG without any package."""

import html
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpo_rlvr.errors import InputError, MissingPackageError
from grpo_rlvr.metrics.engine import judge_parsed
from grpo_rlvr.metrics.limits import CUT_SHARE, GRAD_EXPLODED, KL_HIGH
from grpo_rlvr.metrics.names import QUANTITIES
from grpo_rlvr.metrics.parsing import ParsedLog
from grpo_rlvr.metrics.rules_trend import is_task
from grpo_rlvr.metrics.signals import FEW, Signal, Signals
from grpo_rlvr.models.recommend import Recommendation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# Okabe-Ito: told apart by colour-blind readers, and in grey.
CURVE, RAW, BREAK, LIMIT, INK = "#0072B2", "#9CC7E0", "#D55E00", "#666666", "#222222"
WIDTH, PANEL_HEIGHT, COLUMNS, PANELS = 800, 230, 2, 4
# The curves to show first, by the first label.
_SHOWN: dict[str, tuple[str, ...]] = {
    "divergence_nan": ("reward", "entropy", "grad_norm", "logp_gap", "kl", "length"),
    "kl_blowup": ("kl", "reward", "grad_norm", "entropy"),
    "no_signal": ("reward", "zero_std", "all_wrong", "grad_norm", "clipped"),
    "truncation": ("clipped", "length", "reward", "entropy"),
    "length_bias": ("length", "reward", "clipped", "entropy"),
    "length_collapse": ("length", "reward", "entropy", "grad_norm"),
    "entropy_collapse": ("entropy", "reward", "zero_std", "clip_frac"),
    "offpolicy_mismatch": ("logp_gap", "is_mean", "mismatch_kl", "reward", "clip_frac"),
    "moe_instability": ("kl", "grad_norm", "reward", "aux_loss"),
}
_USUAL = ("reward", "entropy", "length", "zero_std", "kl", "clipped", "grad_norm")
_LIMITS = {"clipped": CUT_SHARE, "grad_norm": GRAD_EXPLODED, "kl": KL_HIGH}


@dataclass(frozen=True)
class Panel:
    """One curve: raw rows, their running median, a dated break and a limit where they exist."""

    title: str
    rows: "Floats"
    values: "Floats"
    smooth: "Floats"
    break_row: int | None
    limit: float | None

    @property
    def is_late(self) -> bool:
        """True when the break lies in the second half: its label then stands to the left of it."""
        return self.break_row is not None and self.break_row > (float(self.rows[0]) + float(self.rows[-1])) / 2

    @property
    def is_high(self) -> bool:
        """True when the curve runs high beside the break's label, which then stands at the foot of the panel."""
        if self.break_row is None:
            return False
        beside = self.smooth[self.rows <= self.break_row] if self.is_late else self.smooth[self.rows >= self.break_row]
        middle = (float(self.values.min()) + float(self.values.max())) / 2
        return len(beside) > 0 and float(beside.mean()) > middle


def panels(parsed: ParsedLog, result: Recommendation | None = None) -> list[Panel]:
    """The curves that carry the verdict, four at most.

    Raises:
        InputError: the log has no curve of two rows or more.
    """
    result = result or judge_parsed(parsed)
    signals = Signals(parsed)
    wanted = (*_SHOWN.get(result.labels[0].label, ()), *_USUAL)
    chosen: list[Signal] = []
    if result.labels[0].label == "reward_hacking":
        wanted = ("reward", *wanted)
        tasks = [*signals.accuracies, *(signal for signal in signals.components if is_task(signal.series.detail))]
        chosen = [signal for signal in tasks if signal.n >= 2][:2]
    for name in dict.fromkeys(wanted):
        signal = signals.get(name)
        if signal is not None and signal.n >= 2 and len(chosen) < PANELS:
            chosen.append(signal)
    if not chosen:
        raise InputError("the log has no column with two values to draw", where="argument 'log'")
    return [_panel(signal) for signal in chosen]


def _panel(signal: Signal) -> Panel:
    import numpy as np

    quantity = QUANTITIES[signal.series.quantity]
    rows, values = _thin(signal.series.rows.astype(float), signal.values)
    width = max(1, len(values) // 15)
    smooth = np.array([np.median(values[max(0, i - width) : i + width + 1]) for i in range(len(values))])
    limit = _LIMITS.get(quantity.name)
    near = limit is not None and float(values.max()) > limit / 2
    unit = f" ({quantity.unit})" if quantity.unit and quantity.unit != "reward" else ""
    title = f"{signal.series.detail or quantity.name.replace('_', ' ')}{unit}"
    return Panel(title, rows, values, smooth, signal.break_row if signal.n >= FEW else None, limit if near else None)


def _thin(rows: "Floats", values: "Floats", most: int = 600) -> tuple["Floats", "Floats"]:
    """At most `most` points: more than a panel has pixels is only ink."""
    import numpy as np

    if len(values) <= most:
        return rows, values
    edges = np.linspace(0, len(values), most + 1).astype(int)
    sizes = np.diff(edges)
    return np.add.reduceat(rows, edges[:-1]) / sizes, np.add.reduceat(values, edges[:-1]) / sizes


def picture_png(parsed: ParsedLog, result: Recommendation | None = None) -> bytes:
    """Draw the curves as a PNG 800 pixels wide.

    Raises:
        MissingPackageError: matplotlib is not installed.
        InputError: nothing to draw.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPackageError(
            "a picture needs the package matplotlib", remedy="Run: pip install 'grpo-rlvr-training[plots]'."
        ) from None
    result = result or judge_parsed(parsed)
    drawn = panels(parsed, result)
    lines = -(-len(drawn) // COLUMNS)
    figure = Figure(figsize=(WIDTH / 100, (PANEL_HEIGHT * lines + 50) / 100), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(_headline(result), fontsize=11, color=INK)
    for index, panel in enumerate(drawn):
        axes = figure.add_subplot(lines, min(COLUMNS, len(drawn)), index + 1)
        _draw(axes, panel)
        if index >= len(drawn) - COLUMNS:
            axes.set_xlabel("row", fontsize=8, color=INK)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _draw(axes: Any, panel: Panel) -> None:
    """One panel: raw rows pale, running median strong, the last value written at the end of the line."""
    axes.plot(panel.rows, panel.values, color=RAW, linewidth=1, marker="." if len(panel.rows) < 15 else "")
    axes.plot(panel.rows, panel.smooth, color=CURVE, linewidth=2)
    axes.set_title(panel.title, fontsize=10, loc="left", color=INK)
    if panel.break_row is not None:
        axes.axvline(panel.break_row, color=BREAK, linewidth=1.2, linestyle="--")
        side = {"ha": "right", "xytext": (-3, 0)} if panel.is_late else {"ha": "left", "xytext": (3, 0)}
        height, anchor = (0.04, "bottom") if panel.is_high else (0.97, "top")
        axes.annotate(
            f"break, row {panel.break_row}",
            (panel.break_row, height),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            color=BREAK,
            fontsize=8,
            va=anchor,
            **side,
        )
    if panel.limit is not None:
        axes.axhline(panel.limit, color=LIMIT, linewidth=1, linestyle=":")
        axes.annotate(f"limit {panel.limit:g}", (0.99, panel.limit), xycoords=("axes fraction", "data"),
                      color=LIMIT, fontsize=8, va="bottom", ha="right")  # fmt: skip
    axes.annotate(f" {panel.smooth[-1]:.3g}", (panel.rows[-1], panel.smooth[-1]), color=CURVE, fontsize=9, va="center",
                  annotation_clip=False)  # fmt: skip
    axes.tick_params(labelsize=8, colors=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.06)


def _headline(result: Recommendation) -> str:
    first = result.labels[0]
    words = f"{first.label} ({first.confidence} confidence): {result.recommendation.variant}"
    return words.replace("_", " ")


def picture_svg(parsed: ParsedLog, result: Recommendation | None = None) -> str:
    """Draw the same curves as one inline SVG element, 800 units wide, that scales with its page.

    Raises:
        InputError: nothing to draw.
    """
    result = result or judge_parsed(parsed)
    drawn = panels(parsed, result)
    lines = -(-len(drawn) // COLUMNS)
    height = PANEL_HEIGHT * lines + 30
    head = html.escape(_headline(result))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{head}" '
        f'style="max-width:100%;height:auto;font-family:system-ui,sans-serif">',
        f'<text x="10" y="18" font-size="14" fill="{INK}">{head}</text>',
    ]
    for index, panel in enumerate(drawn):
        parts += _svg_panel(panel, (index % COLUMNS) * WIDTH / COLUMNS, 30 + (index // COLUMNS) * PANEL_HEIGHT)
    return "".join([*parts, "</svg>"])


def _svg_panel(panel: Panel, left: float, top: float) -> list[str]:
    import numpy as np

    x0, x1, y0, y1 = left + 55, left + WIDTH / COLUMNS - 50, top + 28, top + PANEL_HEIGHT - 32
    low, high = float(np.min(panel.values)), float(np.max(panel.values))
    if panel.limit is not None:
        high = max(high, panel.limit)
    high = high if high > low else low + (abs(low) or 1.0) * 0.1
    first, last = float(panel.rows[0]), float(panel.rows[-1])

    def place(row: float, value: float) -> tuple[float, float]:
        return x0 + (row - first) / max(last - first, 1e-9) * (x1 - x0), y1 - (value - low) / (high - low) * (y1 - y0)

    def path(values: "Floats") -> str:
        return " ".join("{:.1f},{:.1f}".format(*place(r, v)) for r, v in zip(panel.rows, values, strict=True))

    def text(x: float, y: float, content: str, colour: str = INK, size: int = 11, anchor: str = "start") -> str:
        style = f'font-size="{size}" fill="{colour}" text-anchor="{anchor}"'
        return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{html.escape(content)}</text>'

    parts = [
        text(x0, top + 18, panel.title, size=13),
        f'<path d="M{x0:.1f} {y0:.1f}V{y1:.1f}H{x1:.1f}" fill="none" stroke="{LIMIT}"/>',
        text(x0 - 5, y0 + 4, f"{high:.3g}", anchor="end"),
        text(x0 - 5, y1, f"{low:.3g}", anchor="end"),
        text(x0, y1 + 14, f"row {first:.0f}"),
        text(x1, y1 + 14, f"{last:.0f}", anchor="end"),
        f'<polyline points="{path(panel.values)}" fill="none" stroke="{RAW}" stroke-width="1"/>',
        f'<polyline points="{path(panel.smooth)}" fill="none" stroke="{CURVE}" stroke-width="2"/>',
    ]
    end = place(last, float(panel.smooth[-1]))
    parts.append(text(end[0] + 4, end[1] + 4, f"{panel.smooth[-1]:.3g}", CURVE))
    if panel.break_row is not None:
        x = place(panel.break_row, low)[0]
        parts.append(f'<path d="M{x:.1f} {y0:.1f}V{y1:.1f}" stroke="{BREAK}" stroke-dasharray="5 3"/>')
        side = (x - 3, "end") if panel.is_late else (x + 3, "start")
        parts.append(
            text(side[0], y1 - 5 if panel.is_high else y0 + 9, f"break, row {panel.break_row}", BREAK, 10, side[1])
        )
    if panel.limit is not None:
        y = place(first, panel.limit)[1]
        parts.append(f'<path d="M{x0:.1f} {y:.1f}H{x1:.1f}" stroke="{LIMIT}" stroke-dasharray="2 3"/>')
        parts.append(text(x1, y - 3, f"limit {panel.limit:g}", LIMIT, 10, "end"))
    return parts
