"""What an examination says: a level and one line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "error"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was examined."""

    level: Level
    text: str


def ok(text: str) -> Finding:
    """Say that something is as it should be."""
    return Finding(level="ok", text=text)


def warn(text: str) -> Finding:
    """Say what may come to harm."""
    return Finding(level="warn", text=text)


def error(text: str) -> Finding:
    """Say what keeps emails from being sent."""
    return Finding(level="error", text=text)
