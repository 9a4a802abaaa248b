"""A number and its noun, for people: in what commands print, and in log lines."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with what belongs to it: "1 email", "2 emails", "1 email is", "2 emails are".

    `many` is `one` with an "s" by default.
    """
    return f"{number} {one if number == 1 else many or one + 's'}"
