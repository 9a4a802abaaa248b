"""What must have become of each recipient, told by the recorded point at which a fault struck."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tests.kill.stage.ledger import Content
from tests.kill.stage.shop import BATCH, Standing
from tests.kill.stage.tracer import Kind

EVERY = int(os.environ.get("OUTBOX_KILL_EVERY", "1"))
"""A person in a hurry tries every n-th point only."""

UNDER_WAY = frozenset({"pending", "claimed", "sending"})
"""The statuses of an email that is still to be sent."""

OPEN = UNDER_WAY | {"unknown"}
"""What stands at a recipient of whom no outcome is recorded yet."""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """One recorded point: what was committed, and which copies the server had."""

    number: int
    kind: Kind
    name: str
    standing: Standing
    accepted: Counter[str]  # copies by recipient

    def __str__(self) -> str:
        return f"{self.number}, {self.what}"

    @property
    def what(self) -> str:
        """What the process has just done, in the words of `Point`."""
        return f"{self.kind} {self.name}"

    def in_doubt(self, address: str) -> bool:
        """Whether a process that dies here leaves this recipient in doubt: its window is open."""
        mail, recipient = self.standing[address]
        return mail == "sending" and recipient in OPEN

    @property
    def exposed(self) -> frozenset[str]:
        """The recipients between whose final dot and whose record it lies."""
        return frozenset(a for a in self.standing if self.in_doubt(a) and self.accepted[a] > 0)


def outside(moments: list[Moment]) -> list[Moment]:
    """Return those outside of a transaction, where a process that is stopped locks no row."""
    return [
        moment
        for moment in moments
        if moment.kind is not Kind.COMMITTING and not moment.name.startswith("SELECT")
    ]


@dataclass(frozen=True, kw_only=True)
class Recording:
    """An undisturbed run: its points, and its end."""

    moments: list[Moment]
    standing: Standing
    copies: Counter[str]
    tasks: int

    @classmethod
    def of(
        cls,
        points: list[dict[str, Any]],
        contents: list[Content],
        standing: Standing,
        *,
        tasks: int,
        before: int,
    ) -> Recording:
        """Put together what the process told and what the server saw: its contents, in order.

        So many of these contents are of those who died `before`.
        """
        taken = [content.recipients if content.accepted else () for content in contents]
        copies = [Counter(to for mail in taken[:n] for to in mail) for n in range(len(taken) + 1)]
        moments = [
            Moment(
                number=number,
                kind=Kind(point["kind"]),
                name=point["name"],
                standing={a: (mail, one) for a, (mail, one) in point["standing"].items()},
                accepted=copies[before + point["dots"]],
            )
            for number, point in enumerate(points)
        ]
        return cls(moments=moments, standing=standing, copies=copies[-1], tasks=tasks)

    @property
    def statuses(self) -> dict[str, str]:
        """How each recipient's email ended."""
        return {address: mail for address, (mail, _) in self.standing.items()}

    def points(self, *kinds: Kind) -> list[Moment]:
        """Return the points of these kinds, in order; of all kinds, where none is named."""
        return [moment for moment in self.moments if not kinds or moment.kind in kinds][::EVERY]

    def refused(self, address: str) -> bool:
        """Whether the server takes no email for this recipient."""
        return self.copies[address] == 0

    def copies_after(self, moment: Moment, *, hold: bool) -> Counter[str]:
        """Return each recipient's copies where a process died here and others went on."""
        expected: Counter[str] = Counter()
        for address, (mail, recipient) in moment.standing.items():
            copies = moment.accepted[address]
            to_come = mail in UNDER_WAY and recipient in OPEN and not self.refused(address)
            if to_come and not (hold and moment.in_doubt(address)):
                copies += 1
            expected[address] = copies
        return expected

    def standing_after(self, moment: Moment, *, hold: bool) -> dict[str, str]:
        """Return how each recipient's email ends then."""
        doubted = {
            address
            for mail in BATCH
            if any(moment.in_doubt(a) and (hold or self.refused(a)) for a in mail)
            for address in mail
        }
        return {a: "unknown" if a in doubted else self.standing[a][0] for a in moment.standing}
