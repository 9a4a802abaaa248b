"""How many batches may be in flight: as many as the living workers have processes.

In a worker the parent process tells the number to its children over shared memory. So no sweep asks
for it, and none waits for the table of the workers. Any other process reads that table.
"""

from __future__ import annotations

import logging
import mmap
from collections.abc import Callable
from math import inf

from ...domain.fleet import slots
from ...store.connection.database import Database
from ...store.connection.error_codes import ANSWERS, describe
from ...store.control.fleet import living_slots

_log = logging.getLogger("outbox")

KNOWN = 5.0
"""Seconds for which a process that is no worker goes by what it has read."""


class Slots:
    """The number of slots; call it for the number as it is now.

    `most` is `OUTBOX_SLOTS`: an upper bound, and the number itself where no living worker is known.
    """

    def __init__(
        self,
        most: Callable[[], int | None],
        database: Callable[[], Database],
        clock: Callable[[], float],
    ) -> None:
        self._most = most
        self._database = database
        self._clock = clock
        self._shared: memoryview[int] | None = None
        self._read = 0
        self._read_until = -inf

    def __call__(self) -> int:
        """Return how many batches may be in flight."""
        if self._shared is not None:
            return slots(self._shared[0], self._most())
        if self._clock() >= self._read_until:
            self._look()
        return slots(self._read, self._most())

    def share(self, number: int) -> None:
        """Begin to share the number with the children that are forked from now on."""
        self._shared = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("I")
        self.tell(number)

    def tell(self, number: int) -> None:
        """Tell this process and its children the number of the living workers' slots."""
        if self._shared is not None:
            self._shared[0] = number

    def _look(self) -> None:
        database = self._database()
        try:
            self._read = database.read(lambda connection: living_slots(connection, database))
        except ANSWERS as error:  # what is read next fails, too, if the database is away
            _log.debug("outbox: the workers' slots are not known (%s)", describe(error))
        self._read_until = self._clock() + KNOWN
