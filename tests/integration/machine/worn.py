"""The machine with emails whose workers keep dying: a sweep claims each of these alone."""

from __future__ import annotations

from hypothesis.stateful import rule

from tests.integration.machine.machine import Machine
from tests.integration.machine.model import ALONE_FROM
from tests.integration.machine.transactions import FEW, apart


class Worn(Machine):
    """Random steps alone hardly ever bring the same email into the hands of two dead workers."""

    @apart
    @rule(limit=FEW)
    def wear_out(self, limit: int) -> None:
        for _ in range(ALONE_FROM):
            self.set_out(limit, size=0)
            self._leases_run_out()
