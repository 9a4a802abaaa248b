"""The machine with somebody who listens: what the signals tell is what the table shows."""

from __future__ import annotations

from collections import Counter

from outbox import Status
from outbox.store.connection.endings import TOLD
from tests.integration.hearing import hearing
from tests.integration.machine.machine import Machine
from tests.integration.machine.tables import Tables


class Told(Machine):
    """After every step each new end in the table has been told once, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self._hearing = hearing()
        self._heard = self._hearing.__enter__()
        self._before: dict[int, Status] = {}

    def teardown(self) -> None:
        self._hearing.__exit__(None, None, None)
        super().teardown()

    def see(self, tables: Tables) -> None:
        """Every end is told once."""
        now = {i: Status(str(row[0])) for i, row in tables.emails.items()}
        ended = ((status, i) for i, status in now.items() if status is not self._before.get(i))
        told = Counter((status, i) for status, ids in self._heard.new() for i in ids)
        assert told == Counter(end for end in ended if end[0] in TOLD)
        self._before = now
