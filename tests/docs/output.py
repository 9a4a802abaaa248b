"""Compares what a page shows with what a command printed."""

from __future__ import annotations

import re

DOTS = "…"
"""Stands for anything in a line; alone in a line, for any lines."""


def is_as_shown(shown: list[str], printed: str) -> bool:
    """Tell whether the page shows what was printed. A page that shows nothing promises nothing."""
    if not shown:
        return True
    lines = "".join(line.rstrip() + "\n" for line in printed.splitlines())
    return re.fullmatch("".join(map(_pattern, shown)), lines) is not None


def _pattern(line: str) -> str:
    if line.strip() == DOTS:
        return r"(?:.*\n)*"
    parts = map(re.escape, line.rstrip().split(DOTS))
    return ".*".join(parts) + r"\n"
