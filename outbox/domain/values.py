"""`value_type`: a dataclass that only the type checker freezes, so that it is quick to make.

One that is frozen at run time sets each field through `object.__setattr__`. A mail on its way is
seven such objects with fifty fields: they took a sixteenth of a worker's time. So it is for those
that are made for each mail and stay among us; what users are given is frozen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as value_type
else:
    from dataclasses import dataclass

    def value_type(*, frozen: bool, **options: bool) -> Any:
        """Return dataclass's decorator; equal values have one hash, as those frozen have."""
        return dataclass(unsafe_hash=frozen, **options)


__all__ = ["value_type"]
