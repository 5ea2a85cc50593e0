"""A line plot as SVG: steps of equal width to the right, powers of ten upwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10

WIDTH, HEIGHT, MARGIN, LINE = 640, 380, 60, 15
COLOURS = ("#888888", "#2166ac", "#e08214", "#1b7837")

Curves = Mapping[str, Mapping[str, float]]
"""Values by step, by name of curve; every curve has the same steps."""


def svg(curves: Curves, title: str, across: str) -> str:
    """Draw curves over the same steps, each value above zero."""
    steps = list(next(iter(curves.values())))
    values = [value for curve in curves.values() for value in curve.values()]
    low = floor(log10(min(values)))
    high = max(low + 1, ceil(log10(max(values))))

    def x(step: str) -> float:
        return MARGIN + (WIDTH - 2 * MARGIN) * steps.index(step) / max(1, len(steps) - 1)

    def y(value: float) -> float:
        return HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (log10(value) - low) / (high - low)

    parts = [_text(WIDTH / 2, 24, title, size=15), _text(WIDTH / 2, HEIGHT - 14, across)]
    for step in steps:
        parts.append(_line((x(step), y(10.0**low)), (x(step), y(10.0**high))))
        parts.append(_text(x(step), y(10.0**low) + 18, step))
    for power in range(low, high + 1):
        parts.append(_line((MARGIN, y(10.0**power)), (WIDTH - MARGIN, y(10.0**power))))
        parts.append(_text(MARGIN - 8, y(10.0**power) + 4, f"{10.0**power:,g}", anchor="end"))
    ends = _apart([y(curve[steps[-1]]) for curve in curves.values()])
    for (name, curve), colour, end in zip(curves.items(), COLOURS, ends, strict=False):
        places = [(x(step), y(value)) for step, value in curve.items()]
        points = " ".join(f"{across:.1f},{up:.1f}" for across, up in places)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{across:.1f}" cy="{up:.1f}" r="3" fill="{colour}"/>' for across, up in places]
        parts.append(_text(x(steps[-1]) + 10, end + 4, name, anchor="start", size=13, colour=colour))
    return _document(parts)


def _apart(heights: Sequence[float]) -> list[float]:
    """Heights of names in the order given, moved down where two would overlap."""
    moved = dict.fromkeys(range(len(heights)), 0.0)
    free = 0.0
    for position in sorted(moved, key=lambda position: heights[position]):
        moved[position] = max(heights[position], free)
        free = moved[position] + LINE
    return list(moved.values())


def _document(parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
    ground = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n{ground}\n{body}\n</svg>\n'


def _line(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#dddddd"/>'


def _text(  # noqa: PLR0913 the attributes of one SVG element
    x: float, y: float, text: str, *, anchor: str = "middle", size: int = 12, colour: str = "#333333"
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="{size}" fill="{colour}">{text}</text>'
