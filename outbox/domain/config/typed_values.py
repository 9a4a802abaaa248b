"""Reads numbers and yes or no, also from a text: a variable of the environment is a text.

Every `OUTBOX_…` and `MAIL_…` setting is read alike. An error names the key and the kind of what was
given, and never the value: it could be a password in the wrong place.
"""

from __future__ import annotations

import re
from typing import Any

from ..errors import ConfigurationError

DAY = 86_400.0
"""Seconds. Also the longest lease and time-out: a socket and SQLite count milliseconds in 31 bits,
which last 24 days."""
MOST = 2**31 - 1
"""The upper bound of every number: 68 years in seconds, 2 GiB in bytes. Databases compute with
little more."""

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?")

_KINDS: dict[type, str] = {
    bool: "True or False",
    float: "a number",
    int: "a whole number",
    str: "text",
    tuple: "a list",
}
"""What a setting must be, by the type of its value."""


def as_truth(value: Any) -> bool | None:
    """Return the truth that a bool, 0, 1 or a word such as "true" or "off" says; None for others.

    Python takes every text that is not empty for true, "false" included.
    """
    if isinstance(value, str):
        word = value.strip().lower()
        return True if word in _TRUE else False if word in _FALSE else None
    return bool(value) if type(value) in (bool, int) and value in (0, 1) else None


def as_whole(value: Any) -> int | None:
    """Return a whole number that was given as such or as a text; None for anything else."""
    if isinstance(value, str):
        text = value.strip()
        return int(text) if _WHOLE.fullmatch(text) else None
    return value if type(value) is int else None  # not bool, which is an int too


def as_number(value: Any) -> int | float | None:
    """Return a number that was given as such or as a text; None for anything else."""
    if isinstance(value, str):
        text = value.strip()
        return float(text) if _NUMBER.fullmatch(text) else None
    return value if type(value) in (int, float) else None


def as_kind(key: str, value: Any, kind: type) -> Any:
    """Return the value as a bool, int, float, str or tuple. Raises ConfigurationError."""
    found: Any
    if kind is tuple:
        found = tuple(value) if isinstance(value, (list, tuple)) else None
    elif kind is str:
        found = value if isinstance(value, str) else None
    else:
        found = {bool: as_truth, int: as_whole, float: as_number}[kind](value)
    if found is None:
        raise ConfigurationError(f"{key} must be {_KINDS[kind]}, not {_told(value)}")
    return found


def read_switch(key: str, value: Any) -> bool | None:
    """Read a setting that is on, off or left to the outbox (None), or raise ConfigurationError."""
    return None if value is None else bool(as_kind(key, value, bool))


def _told(value: Any) -> str:
    if value is None:
        return "None: leave the key out for its default"
    return "this text" if isinstance(value, str) else type(value).__name__
