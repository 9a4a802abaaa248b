"""The low-water mark: where the due emails of a long backlog begin.

PostgreSQL leaves an index entry behind for each claimed email until a vacuum removes it. Under a
pinned MVCC horizon no vacuum can, and each search for the oldest due email reads all of them again.
So a claim starts at the first email that its sweep has just seen. For a moment the next sweep
starts there too, as long as it finds enough emails behind it. An email that is due before the mark,
such as one that was given back, waits for that moment while others go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...domain.scheduling.claim_plan import DueEmails, LaneKey
from ..connection.database import Database
from ..records import Mark

TRUST = 1.0
"""Seconds after which a sweep looks at everything again."""


class LowWater:
    """Keeps the marks of one process, and only of backlogs longer than a sweep counts."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._marks: Mapping[LaneKey, Mark] = {}
        self._until = clock()

    def marks(self, database: Database) -> Mapping[LaneKey, Mark]:
        """Return the marks that may be used now; none where the index keeps no old entries."""
        is_useful = database.facts.keeps_index_entries and self._clock() < self._until
        return self._marks if is_useful else {}

    def note(
        self,
        used: Mapping[LaneKey, Mark],
        due: Mapping[LaneKey, DueEmails],
        first: Mapping[LaneKey, Mark],
        most: int,
    ) -> bool:
        """Keep what a sweep saw from the `used` marks on; False where it must look without them."""
        long = {way: first[way] for way, found in due.items() if found.emails >= most}
        if not used:
            self._until = self._clock() + TRUST
        elif not used.keys() <= long.keys():
            self._marks = {}
            return False
        self._marks = long
        return True
