"""A line plot as SVG: allocated against arrived load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

WIDTH, HEIGHT, MARGIN = 640, 400, 50
COLOURS = ("#888888", "#c51b7d", "#e08214", "#2166ac", "#1b7837")


def svg(curves: Mapping[str, Sequence[float]], first: int, last: int, title: str) -> str:
    """Draw curves of per cent by whole per cent, from `first` to `last` on both axes."""

    def x(value: float) -> float:
        return round(MARGIN + (value - first) / (last - first) * (WIDTH - 2 * MARGIN), 1)

    def y(value: float) -> float:
        top = 100
        return round(HEIGHT - MARGIN - (value - first) / (top - first) * (HEIGHT - 2 * MARGIN), 1)

    parts = [_text(WIDTH / 2, 24, title, "middle", 15)]
    for tick in range(first, last + 1, 10):
        parts += [
            _line(x(tick), y(first), x(tick), y(100), "#dddddd"),
            _text(x(tick), y(first) + 18, f"{tick}"),
        ]
    for tick in range(first, 101, 5):
        parts += [
            _line(x(first), y(tick), x(last), y(tick), "#dddddd"),
            _text(x(first) - 18, y(tick) + 4, f"{tick}"),
        ]
    parts.append(_text(WIDTH / 2, HEIGHT - 8, "arrived GPU load, % of capacity (vertical: allocated, %)"))
    for number, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        shown = [(x(i), y(curve[i])) for i in range(first, min(last + 1, len(curve))) if curve[i] >= first]
        points = " ".join(f"{px},{py}" for px, py in shown)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(WIDTH - MARGIN - 8, y(first) - 14 - 18 * number, name, "end", 13, colour))
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}"/>'


def _text(  # noqa: PLR0913, PLR0917 - the attributes of one SVG element
    x: float, y: float, text: str, anchor: str = "middle", size: int = 12, colour: str = "#333333"
) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{text}</text>'
