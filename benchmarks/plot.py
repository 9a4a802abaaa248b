"""Draws each figure against its target, on one logarithmic axis, as a small SVG.

It uses no library: a bar chart is sixty lines. matplotlib would bring NumPy and five more packages,
with over 100 MB, into the environment of everybody who runs the tests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from benchmarks.table import HEADER, MET, ONE_ROUND, Cells

_WIDTH, _LEFT, _RIGHT, _LINE, _TOP = 960, 430, 140, 26, 56
_TARGET = HEADER.index("target")
_DECADES = 1.5
"""Powers of ten on each side of the target; a bar beyond them is cut off at the edge."""


def svg(title: str, rows: Sequence[Cells]) -> str:
    """Return the plot of a table's rows: the line in the middle is the target, right is better."""
    bars = [row for row in rows if row[_TARGET]]
    height = _TOP + _LINE * len(bars) + 20
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}"'
            ' font-family="sans-serif" font-size="13">',
            f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
            f'<text x="16" y="24" font-size="16">{escape(title)}</text>',
            *_axis(height),
            *(_bar(row, _TOP + _LINE * place) for place, row in enumerate(bars)),
            "</svg>\n",
        ]
    )


def _axis(height: int) -> list[str]:
    drawn = []
    for factor in (0.1, 0.3, 1, 3, 10):
        x = _x(factor)
        colour = "#333333" if factor == 1 else "#d0d0d0"
        drawn += [
            f'<line x1="{x:.1f}" y1="{_TOP - 8}" x2="{x:.1f}" y2="{height - 12}"'
            f' stroke="{colour}"/>',
            f'<text x="{x:.1f}" y="{_TOP - 12}" text-anchor="middle" fill="#666666">'
            f"{'target' if factor == 1 else f'{factor:g} x'}</text>",
        ]
    return drawn


def _bar(row: Cells, y: int) -> str:
    _, what, _, beside, figure, spread, target, verdict = row
    value = _number(figure)
    ends = [figure, figure] if spread == ONE_ROUND else spread.split(" to ")
    middle, end = _x(1), _x(_advantage(value, target))
    x, width = min(middle, end), max(1.0, abs(end - middle))
    low, high = sorted(_x(_advantage(_number(each), target)) for each in ends)
    label = what + (f", of {beside.rpartition(': ')[0]}" if beside else "")
    centre = y + _LINE / 2
    return (
        f'<text x="{_LEFT - 10}" y="{centre + 4}" text-anchor="end">{escape(label)}</text>'
        f'<rect x="{x:.1f}" y="{y + 5}" width="{width:.1f}" height="{_LINE - 10}"'
        f' fill="{"#3a7d5c" if verdict.startswith(MET) else "#b4513e"}"/>'
        f'<line x1="{low:.1f}" y1="{centre}" x2="{high:.1f}" y2="{centre}" stroke="#000000"/>'
        f'<text x="{_WIDTH - _RIGHT + 8}" y="{centre + 4}">{escape(figure)}</text>'
    )


def _number(cell: str) -> float:
    return float(cell.split()[0].replace(",", ""))


def _advantage(value: float, target: str) -> float:
    """Return how many times better a figure is than its target."""
    sign, limit = target[0], _number(target[1:])
    if not limit or not value:  # a count that must be zero
        return 1.0 if value <= limit else 0.0
    return value / limit if sign == "≥" else limit / value


def _x(factor: float) -> float:
    """Return a factor's place on the axis: half and double are equally far from the target."""
    reach = 10**_DECADES
    bounded = min(max(factor, 1 / reach), reach)
    half = (_WIDTH - _LEFT - _RIGHT) / 2
    return _LEFT + half + half * math.log10(bounded) / _DECADES
