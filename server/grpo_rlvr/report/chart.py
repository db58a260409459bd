"""Small charts as inline SVG: no script, no file from outside, readable in light and dark and without colour."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 560, 220
LEFT, TOP, BOTTOM = 46, 20, 30
# Room for the labels at the ends of the lines, by the longest of them; a character is about 6.5 wide.
LEAST_RIGHT, MOST_RIGHT, CHARACTER = 60, 190, 6.5
SMOOTH_ROWS = 9
# Okabe-Ito colours, which people with colour blindness can tell apart; named in the style sheet.
CLASSES = ("c0", "c1", "c2", "c3", "c4")


@dataclass(frozen=True)
class Series:
    """One line: points (x, y) with y finite, and its name."""

    name: str
    points: Sequence[tuple[float, float]]


def finite(points: Sequence[tuple[float, float | None]]) -> list[tuple[float, float]]:
    """Drop the points without a finite value: a gap is not a zero."""
    return [(x, y) for x, y in points if isinstance(y, int | float) and math.isfinite(y)]


def line_chart(title: str, unit: str, series: Sequence[Series], *, floor: float | None = None) -> str:
    """Return an SVG of raw points (faint) and their running median (strong), each line labelled at its end.

    Args:
        title: Read out by screen readers.
        unit: Label of the vertical axis.
        series: At most five lines; empty ones are left out.
        floor: Lowest value that the axis must show.
    """
    shown = [line for line in series if len(line.points) >= 2][: len(CLASSES)]
    if not shown:
        return ""
    smoothed = [running_median(line.points) for line in shown]
    texts = [_label(line.name, smooth[-1][1]) for line, smooth in zip(shown, smoothed, strict=True)]
    scale = _Scale(shown, floor, WIDTH - min(MOST_RIGHT, max(LEAST_RIGHT, 12 + CHARACTER * max(map(len, texts)))))
    parts = [_frame(scale, unit)]
    labels: list[float] = []
    for index, (line, smooth) in enumerate(zip(shown, smoothed, strict=True)):
        parts.append(f'<polyline class="raw {CLASSES[index]}" points="{scale.path(line.points)}"/>')
        parts.append(f'<polyline class="line {CLASSES[index]}" points="{scale.path(smooth)}"/>')
        y = _free_place(scale.y(smooth[-1][1]), labels)
        labels.append(y)
        text = escape(texts[index])
        parts.append(f'<text class="label t{index}" x="{scale.right + 6:.1f}" y="{y + 4:.1f}">{text}</text>')
    return _svg(title, parts, WIDTH, HEIGHT)


def interval_chart(title: str, rows: Sequence[tuple[str, float, float, float]]) -> str:
    """Return an SVG of proportions with their intervals: rows of (name, value, low, high), all in 0 to 1."""
    height = 34 * len(rows) + 34
    left = 150

    def x(value: float) -> float:
        return left + min(max(value, 0.0), 1.0) * (WIDTH - left - 60)

    parts = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(f'<line class="grid" x1="{x(tick)}" x2="{x(tick)}" y1="8" y2="{height - 26}"/>')
        parts.append(f'<text class="tick" text-anchor="middle" x="{x(tick)}" y="{height - 10}">{tick:.0%}</text>')
    for index, (name, value, low, high) in enumerate(rows):
        y = 24 + 34 * index
        colour = CLASSES[index % 2]
        parts.append(f'<text class="label" text-anchor="end" x="{left - 12}" y="{y + 4}">{escape(name)}</text>')
        parts.append(f'<line class="whisker {colour}" x1="{x(low)}" x2="{x(high)}" y1="{y}" y2="{y}"/>')
        parts.append(f'<circle class="dot {colour}" cx="{x(value)}" cy="{y}" r="5"/>')
        parts.append(f'<text class="label" x="{x(high) + 8}" y="{y + 4}">{value:.0%}</text>')
    return _svg(title, parts, WIDTH, height)


def bar_chart(title: str, counts: Sequence[int], low: float, high: float) -> str:
    """Return an SVG histogram of `counts` in equal bins from `low` to `high`."""
    height, top = 130, max([*counts, 1])
    width = (WIDTH - LEFT - 20) / max(len(counts), 1)
    parts = []
    for index, count in enumerate(counts):
        tall = (height - 40) * count / top
        x, y = LEFT + index * width, height - 26 - tall
        parts.append(f'<rect class="bar" x="{x + 1:.1f}" y="{y:.1f}" width="{width - 2:.1f}" height="{tall:.1f}"/>')
        if count:
            parts.append(
                f'<text class="tick" text-anchor="middle" x="{x + width / 2:.1f}" y="{y - 4:.1f}">{count}</text>'
            )
    parts.append(f'<text class="tick" x="{LEFT}" y="{height - 8}">{number(low)}</text>')
    parts.append(f'<text class="tick" text-anchor="end" x="{WIDTH - 20}" y="{height - 8}">{number(high)}</text>')
    return _svg(title, parts, WIDTH, height)


def running_median(points: Sequence[tuple[float, float]], rows: int = SMOOTH_ROWS) -> list[tuple[float, float]]:
    """Return the points with each value replaced by the median of the `rows` values around it."""
    half = rows // 2
    values = [y for _, y in points]
    smooth = []
    for index, (x, _) in enumerate(points):
        window = sorted(values[max(0, index - half) : index + half + 1])
        smooth.append((x, window[len(window) // 2]))
    return smooth


def number(value: float) -> str:
    """A number with three digits."""
    return f"{value:.3g}"


def nice_ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Return round values from `low` or below to `high` or above, in steps of 1, 2, 2.5 or 5 times a power of 10."""
    span = (high - low) or abs(high) or 1.0
    raw = span / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, max(last, first + 1) + 1)]


class _Scale:
    def __init__(self, series: Sequence[Series], floor: float | None, right: float) -> None:
        xs = [x for line in series for x, _ in line.points]
        ys = [y for line in series for _, y in line.points]
        self.right = right
        self.x_low, self.x_high = min(xs), max(xs)
        self.ticks = nice_ticks(min([*ys, floor]) if floor is not None else min(ys), max(ys))
        self.y_low, self.y_high = self.ticks[0], self.ticks[-1]

    def x(self, value: float) -> float:
        span = (self.x_high - self.x_low) or 1.0
        return LEFT + (value - self.x_low) / span * (self.right - LEFT)

    def y(self, value: float) -> float:
        span = (self.y_high - self.y_low) or 1.0
        return HEIGHT - BOTTOM - (value - self.y_low) / span * (HEIGHT - TOP - BOTTOM)

    def path(self, points: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)


def _frame(scale: _Scale, unit: str) -> str:
    parts = [f'<text class="tick" x="{LEFT}" y="11">{escape(unit)}</text>']
    for value in scale.ticks:
        y = scale.y(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{scale.right:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" text-anchor="end" x="{LEFT - 6}" y="{y + 4:.1f}">{number(value)}</text>')
    middle = round((scale.x_low + scale.x_high) / 2)
    for value, text in ((scale.x_low, "step "), (middle, ""), (scale.x_high, "")):
        x = scale.x(value)
        label = f"{text}{value:.0f}"
        parts.append(f'<text class="tick" text-anchor="middle" x="{x:.1f}" y="{HEIGHT - 10}">{label}</text>')
    return "".join(parts)


def _label(name: str, value: float) -> str:
    longest = int((MOST_RIGHT - 12) / CHARACTER) - 8
    short = name if len(name) <= longest else f"{name[: longest - 1]}…"
    return f"{short} {number(value)}"


def _free_place(y: float, taken: list[float]) -> float:
    """Move a label down until it no longer covers another one."""
    while any(abs(y - other) < 13 for other in taken):
        y += 13
    return y


def _svg(title: str, parts: Sequence[str], width: int, height: int) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title, quote=True)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )
