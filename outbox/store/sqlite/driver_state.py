"""What SQLite's driver tells of its use, by whoever has used it."""

from __future__ import annotations

from typing import Any


def seen(driver: Any) -> object:
    """Return what a statement over the driver's own cursor changes."""
    return bool(getattr(driver, "in_transaction", True))


def written(driver: Any) -> int | None:
    """Return how many rows were ever written over this connection."""
    return getattr(driver, "total_changes", None)
