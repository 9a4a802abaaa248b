"""Draws the lifecycle as an SVG: the statuses have their places here, the arrows are the code's."""

from __future__ import annotations

from itertools import pairwise
from math import hypot

from outbox.domain.delivery.status import ARROWS, Status

WIDTH, HEIGHT = 920, 470
HALF_WIDTH, HALF_HEIGHT = 58, 21
PLACES = {
    Status.PENDING: (110, 170),
    Status.CLAIMED: (345, 170),
    Status.SENDING: (580, 170),
    Status.SENT: (815, 170),
    Status.CANCELLED: (110, 340),
    Status.EXPIRED: (265, 340),
    Status.SUPPRESSED: (420, 340),
    Status.UNKNOWN: (580, 340),
    Status.FAILED: (815, 340),
}
MAIN = (Status.PENDING, Status.CLAIMED, Status.SENDING, Status.SENT)
"""The way of almost every email."""
BENDS = {
    (Status.PENDING, Status.SENT): -150,
    (Status.CLAIMED, Status.SENT): -85,
    (Status.SENDING, Status.PENDING): -62,
    (Status.PENDING, Status.UNKNOWN): 14,
}
"""How far an arrow bends to its right, in pixels, where the usual bend would cross a status."""
BEND = 12
ROUND = "M 800 363 C 690 455 22 475 22 330 C 22 265 40 222 72 194"
"""The way from failed to pending: round all that stands between them."""

STYLE = """\
  text { font: 15px system-ui, sans-serif; text-anchor: middle; dominant-baseline: central }
  rect { fill: #fff; stroke: #57606a; stroke-width: 1.5 }
  .end { fill: #eef1f4 }
  .sent { fill: #dff3e4; stroke: #1a7f37 }
  .unknown { fill: #fff4d6; stroke: #9a6700 }
  path { fill: none; stroke: #8c959f; stroke-width: 1.3; marker-end: url(#grey) }
  .main { stroke: #0969da; stroke-width: 3; marker-end: url(#blue) }
"""
ENDS = {Status.FAILED, Status.CANCELLED, Status.EXPIRED, Status.SUPPRESSED}


def drawing() -> str:
    """Return the SVG."""
    arrows = [_arrow(arrow.source, arrow.target) for arrow in ARROWS]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
            "<title>The lifecycle of an email: each status and each arrow</title>",
            f"<style>\n{STYLE}</style>",
            _head("grey", "#8c959f", 7),
            _head("blue", "#0969da", 4),
            f'<rect width="{WIDTH}" height="{HEIGHT}" rx="12" style="stroke: none"/>',
            '<path class="main" d="M 8 170 L 48 170"/>',
            *sorted(arrows, key=lambda path: 'class="main"' in path),
            *map(_box, PLACES),
            "</svg>\n",
        ]
    )


def _head(name: str, colour: str, size: int) -> str:
    shape = f'<polygon points="0 0, 10 5, 0 10" fill="{colour}"/>'
    where = f'viewBox="0 0 10 10" refX="9" refY="5" markerWidth="{size}" markerHeight="{size}"'
    return f'<marker id="{name}" {where} orient="auto">{shape}</marker>'


def _box(status: Status) -> str:
    x, y = PLACES[status]
    kind = "end" if status in ENDS else str(status)
    place = f'x="{x - HALF_WIDTH}" y="{y - HALF_HEIGHT}"'
    size = f'width="{2 * HALF_WIDTH}" height="{2 * HALF_HEIGHT}"'
    return f'<rect class="{kind}" {place} {size} rx="8"/><text x="{x}" y="{y}">{status}</text>'


def _arrow(source: Status, target: Status) -> str:
    """Return a curve from border to border."""
    if (source, target) == (Status.FAILED, Status.PENDING):
        return f'<path d="{ROUND}"/>'
    (x1, y1), (x2, y2) = PLACES[source], PLACES[target]
    bend = BENDS.get((source, target), BEND)
    is_main = (source, target) in pairwise(MAIN)
    length = hypot(x2 - x1, y2 - y1)
    away = (0 if is_main else bend) * 2 / length
    middle = ((x1 + x2) / 2 - (y2 - y1) * away, (y1 + y2) / 2 + (x2 - x1) * away)
    (ax, ay), (bx, by) = _border((x1, y1), middle), _border((x2, y2), middle)
    kind = ' class="main"' if is_main else ""
    curve = f"M {ax:.0f} {ay:.0f} Q {middle[0]:.0f} {middle[1]:.0f} {bx:.0f} {by:.0f}"
    return f'<path{kind} d="{curve}"/>'


def _border(centre: tuple[float, float], towards: tuple[float, float]) -> tuple[float, float]:
    """Return where the line from a box's centre leaves the box."""
    dx, dy = towards[0] - centre[0], towards[1] - centre[1]
    scale = max(abs(dx) / (HALF_WIDTH + 2), abs(dy) / (HALF_HEIGHT + 2), 0.001)
    return centre[0] + dx / scale, centre[1] + dy / scale
