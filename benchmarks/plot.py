"""Draws each figure against its target, on one logarithmic axis, as a small SVG.

It uses no library: a bar chart is sixty lines. matplotlib would bring NumPy and five more packages,
with over 100 MB, into the environment of everybody who runs the tests.
"""

from __future__ import annotations

import math
from html import escape

from benchmarks.results import Report, Row
from benchmarks.table import number

_WIDTH, _LEFT, _RIGHT, _LINE, _TOP = 960, 430, 140, 26, 56
_DECADES = 1.5
"""Powers of ten on each side of the target; a bar beyond them is cut off at the edge."""


def svg(report: Report) -> str:
    """Return the plot: the line in the middle is the target, and right of it is better."""
    rows = [row for part in report.parts for row in part.rows if row.target is not None]
    height = _TOP + _LINE * len(rows) + 20
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}"'
            ' font-family="sans-serif" font-size="13">',
            f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
            f'<text x="16" y="24" font-size="16">{escape(_title(report))}</text>',
            *_axis(height),
            *(_bar(row, _TOP + _LINE * place) for place, row in enumerate(rows)),
            "</svg>\n",
        ]
    )


def _title(report: Report) -> str:
    said = report.conditions
    scaled = "" if said["scale"] == 1 else f", at {said['scale']:g} of the size"
    return f"Figures against their targets ({said['commit']}, {said['cores']} cores{scaled})"


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


def _bar(row: Row, y: int) -> str:
    middle, end = _x(1), _x(_advantage(row, row.value))
    x, width = min(middle, end), max(1.0, abs(end - middle))
    low, high = sorted(_x(_advantage(row, value)) for value in row.spread)
    label = f"{row.what}" + (f", of {row.beside.name}" if row.beside else "")
    unit = "x" if row.beside else row.ours.unit
    centre = y + _LINE / 2
    return (
        f'<text x="{_LEFT - 10}" y="{centre + 4}" text-anchor="end">{escape(label)}</text>'
        f'<rect x="{x:.1f}" y="{y + 5}" width="{width:.1f}" height="{_LINE - 10}"'
        f' fill="{"#3a7d5c" if row.met else "#b4513e"}"/>'
        f'<line x1="{low:.1f}" y1="{centre}" x2="{high:.1f}" y2="{centre}" stroke="#000000"/>'
        f'<text x="{_WIDTH - _RIGHT + 8}" y="{centre + 4}">'
        f"{escape(f'{number(row.value)} {unit}')}</text>"
    )


def _advantage(row: Row, value: float) -> float:
    """Return how many times better a figure is than its target."""
    assert row.target is not None
    limit = row.target.limit
    if not limit or not value:  # a count that must be zero
        return 1.0 if row.target.is_met(value) else 0.0
    return value / limit if row.target.at_least else limit / value


def _x(factor: float) -> float:
    """Return a factor's place on the axis: half and double are equally far from the target."""
    reach = 10**_DECADES
    bounded = min(max(factor, 1 / reach), reach)
    half = (_WIDTH - _LEFT - _RIGHT) / 2
    return _LEFT + half + half * math.log10(bounded) / _DECADES
