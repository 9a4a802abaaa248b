"""A finding of an examination: a level and one line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "error"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What an examination found of one thing."""

    level: Level
    text: str


def ok(text: str) -> Finding:
    """Return a finding that something is as it should be."""
    return Finding(level="ok", text=text)


def warn(text: str) -> Finding:
    """Return a finding of something that may do harm."""
    return Finding(level="warn", text=text)


def error(text: str) -> Finding:
    """Return a finding of something that keeps emails from being sent."""
    return Finding(level="error", text=text)
