"""`value_type`: a dataclass that only the type checker freezes, so that it is quick to create.

Use it only for internal per-message objects; public ones are frozen. A dataclass that is frozen at
run time sets each field through `object.__setattr__`, which took a sixteenth of a worker's time. A
NamedTuple is as quick, but its repr would show an email's headers and values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as value_type
else:
    from dataclasses import dataclass

    def value_type(*, frozen: bool, **options: bool) -> Any:
        """Return dataclass's decorator. Equal values hash alike, as in a frozen dataclass."""
        return dataclass(unsafe_hash=frozen, **options)


__all__ = ["value_type"]
