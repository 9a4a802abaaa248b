"""What a driver of MariaDB and MySQL tells of its use, by whoever has used it."""

from __future__ import annotations

from typing import Any


def seen(driver: Any) -> object:
    """Return what a statement over the driver's own cursor changes."""
    return getattr(driver, "_result", None)


def written(_driver: Any) -> int | None:
    """Return nothing: without the privilege PROCESS nobody is told what was written."""
    return None
