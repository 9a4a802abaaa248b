"""Shows whether anybody has used a connection's driver, on SQLite."""

from __future__ import annotations

from typing import Any


def seen(driver: Any) -> object:
    """Return a value that a statement over the driver's own cursor may change."""
    return bool(getattr(driver, "in_transaction", True))


def written(driver: Any) -> int | None:
    """Return how many rows were written over this connection since it was opened."""
    return getattr(driver, "total_changes", None)
