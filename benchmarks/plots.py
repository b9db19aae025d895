"""Lines over an axis, as SVG that needs no script: what the pages of the documentation show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

__all__ = ["Points", "line_plot"]

Points = Sequence[tuple[float, float]]

COLOURS = ("#2f8f5b", "#c5533f", "#3572b0", "#a3629a")
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 720, 330, 60, 24, 280
RIGHT = 500


def line_plot(lines: Mapping[str, Points], *, across: str, up: str, highest: float) -> str:
    """A line for each name; `across` is the title of the axis below, logarithmic, and `up` of the
    other, which goes from 0 to `highest`."""
    xs = sorted({x for points in lines.values() for x, _ in points})
    low, high = math.log10(xs[0]), math.log10(xs[-1])

    def at(x: float, y: float) -> tuple[float, float]:
        share = (math.log10(x) - low) / (high - low or 1)
        return LEFT + (RIGHT - LEFT) * share, BOTTOM - (BOTTOM - TOP) * y / highest

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
        f' height="{HEIGHT}" font-family="sans-serif" font-size="11" role="img">',
        f"<title>{escape(up)} over {escape(across)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="14" fill="#222">{escape(up)}</text>',
        f'<text x="{LEFT}" y="{HEIGHT - 8}" fill="#222">{escape(across)}</text>',
    ]
    for n in range(5):
        y = highest * n / 4
        parts += _rule(LEFT, at(xs[0], y)[1], RIGHT, at(xs[0], y)[1])
        parts.append(_label(LEFT - 6, at(xs[0], y)[1] + 4, f"{y:g}", "end"))
    for x in _some([10**n * k for n in range(-3, 9) for k in (1, 2, 5)], xs[0], xs[-1]):
        parts.append(_label(at(x, 0)[0], BOTTOM + 16, f"{x:,g}", "middle"))
    for number, (name, points) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        shown = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in points))
        parts.append(f'<polyline points="{shown}" fill="none" stroke="{colour}" stroke-width="2"/>')
        x, y = at(*points[-1])
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
        title = (
            f'<text x="{RIGHT + 14}" y="{40 + 18 * number}" fill="{colour}">{escape(name)}</text>'
        )
        parts.append(title)
    return "\n".join([*parts, "</svg>\n"])


def _some(values: Sequence[float], low: float, high: float) -> list[float]:
    """Those in reach; of many, the powers of ten."""
    inside = [each for each in values if low * 0.999 <= each <= high * 1.001]
    return inside if len(inside) < 9 else [each for each in inside if math.log10(each) % 1 < 1e-9]


def _rule(x1: float, y1: float, x2: float, y2: float) -> list[str]:
    return [f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>']


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#222">{escape(text)}</text>'
