"""The low-water mark: where the due emails of a long backlog begin.

PostgreSQL leaves an index entry behind for each claimed email until a vacuum removes it. Under a
pinned MVCC horizon no vacuum can, and each search for the oldest due email reads all of them again.
So a claim starts at the first email that its sweep has just seen. For a moment the next sweep
starts there too, as long as it finds enough emails behind it. An email that is due before the mark,
such as one that was given back, waits for that moment while others go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Table, bindparam, tuple_

from ...domain.scheduling.claim_plan import DueEmails, LaneKey

TRUST = 1.0
"""Seconds after which a sweep looks at everything again."""


@dataclass(frozen=True, slots=True)
class Mark:
    """No email that was seen stands before this place in the index of due emails."""

    due_at: datetime
    id: int


def beyond(email: Table, way: LaneKey) -> ColumnElement[bool]:
    """The email stands at this way's mark or after it; one range of the index of due emails."""
    moment, key = _names(way)
    mark = tuple_(
        bindparam(moment, type_=email.c.due_at.type), bindparam(key, type_=email.c.id.type)
    )
    return tuple_(email.c.due_at, email.c.id) >= mark


def mark_parameters(marks: Mapping[LaneKey, Mark]) -> dict[str, Any]:
    """Return the parameters of `beyond` of each way."""
    found: dict[str, Any] = {}
    for way, mark in marks.items():
        found |= zip(_names(way), (mark.due_at, mark.id), strict=True)
    return found


def _names(way: LaneKey) -> tuple[str, str]:
    lane, priority = way
    name = f"since_{lane.encode().hex()}_{priority.value}"
    return f"{name}_due", f"{name}_id"


class LowWater:
    """Keeps the marks of one process, and only of backlogs longer than a sweep counts."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._marks: Mapping[LaneKey, Mark] = {}
        self._until = clock()

    def marks(self) -> Mapping[LaneKey, Mark]:
        """Return the marks that may be used now."""
        return self._marks if self._clock() < self._until else {}

    def note(
        self,
        used: Mapping[LaneKey, Mark],
        due: Mapping[LaneKey, DueEmails],
        first: Mapping[LaneKey, Mark],
        most: int,
    ) -> bool:
        """Keep what a sweep saw from the `used` marks on; False where it must look without them."""
        long = {way: first[way] for way, found in due.items() if found.mails >= most}
        if not used:
            self._until = self._clock() + TRUST
        elif not used.keys() <= long.keys():
            self._marks = {}
            return False
        self._marks = long
        return True
