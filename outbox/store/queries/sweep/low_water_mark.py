"""The low-water mark: where the due emails of a long backlog begin.

PostgreSQL leaves an index entry behind for each claimed email until a vacuum removes it. Under a
pinned MVCC horizon no vacuum can, and each search for the oldest due email reads all entries again.
So a claim starts at the first email that its sweep has just seen. For TRUST seconds the next sweeps
start there too, as long as they find enough emails after it. An email that is due before the mark,
such as one that was given back, waits for that time while others go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ....domain.scheduling.claim_plan import DueEmails, LaneKey
from ...connection.database import Database
from ...records import Mark

TRUST = 1.0
"""Seconds after which a sweep looks at all due emails again."""


class LowWater:
    """Keeps the marks of one process, and only for backlogs longer than a sweep counts."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._marks: Mapping[LaneKey, Mark] = {}
        self._until = clock()

    def marks(self, database: Database) -> Mapping[LaneKey, Mark]:
        """Return the marks that may be used now; none if the index keeps no old entries."""
        is_useful = database.facts.keeps_index_entries and self._clock() < self._until
        return self._marks if is_useful else {}

    def note(
        self,
        used: Mapping[LaneKey, Mark],
        due: Mapping[LaneKey, DueEmails],
        first: Mapping[LaneKey, Mark],
        most: int,
    ) -> bool:
        """Keep what a sweep saw from the `used` marks on; return False if it must look again.

        Then it found too few emails behind a mark, and must look without marks. `most` is how many
        emails a sweep counts.
        """
        long = {way: first[way] for way, found in due.items() if found.emails >= most}
        if not used:
            self._until = self._clock() + TRUST
        elif not used.keys() <= long.keys():
            self._marks = {}
            return False
        self._marks = long
        return True
