"""A finding of an examination: a level and one line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .codes import Code

Level = Literal["ok", "warn", "error"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What an examination found of one thing."""

    level: Level
    text: str
    code: Code


def ok(text: str, code: Code) -> Finding:
    """Return a finding that something is as it should be."""
    return Finding(level="ok", text=text, code=code)


def warn(text: str, code: Code) -> Finding:
    """Return a finding of something that may do harm."""
    return Finding(level="warn", text=text, code=code)


def error(text: str, code: Code) -> Finding:
    """Return a finding of something that keeps emails from being sent."""
    return Finding(level="error", text=text, code=code)
