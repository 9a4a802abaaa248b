"""The purge: removes emails past their retention, and bodies past theirs. It ends no email.

Two walks take turns, each with a mark of its own: one removes whole emails, the other the bodies of
emails that stay longer. Only finished emails are ever changed.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from functools import partial
from typing import NamedTuple
from uuid import UUID, uuid4

from sqlalchemy import true

from ...domain.config.retention import Retention
from ..connection.database import Database
from ..redaction import has_body
from .body_removal import remove_bodies
from .horizons import horizons_of
from .mark import UNDER_WAY, PurgeUnderWay, release, take
from .removal import remove
from .walk import REST, Goal, Walk

SPAN = 10_000
"""The number of ids that one purge searches for emails that the mark passed unseen. Behind the mark
there are only stragglers."""

BODY_SPAN = 1_000
"""The same for emails whose bodies are to go. Behind that mark every email still has a record."""

PATIENCE = 1.0
"""Seconds for which a purge that ends tries to give up its lease while others lock the mark."""

_EMAILS = Goal(
    walked="walked",
    searched="searched",
    span=SPAN,
    stragglers=lambda tables: tables.straggler,
    remove=remove,
    is_to_go=lambda _: true(),
)
_BODIES = Goal(
    walked="bodies_walked",
    searched="bodies_searched",
    span=BODY_SPAN,
    stragglers=lambda tables: tables.body_straggler,
    remove=remove_bodies,
    is_to_go=has_body,
)


class Removed(NamedTuple):
    """What one transaction removed."""

    emails: int = 0
    bodies: int = 0  # of emails that stay

    def plus(self, other: Removed) -> Removed:
        """Return what both removed."""
        return Removed(self.emails + other.emails, self.bodies + other.bodies)


def purge(
    database: Database,
    retention: Retention,
    *,
    body_retention: float | None = None,
    usual: Retention | None = None,
) -> Generator[Removed, None, None]:
    """Remove the emails past their ages, and the bodies past theirs; yield after each transaction.

    Give the `usual` ages of the emails where these are others: an email that cannot be removed now
    is removed by then.

    The generator may be closed between two transactions: the next purge goes on from there. Raises
    PurgeUnderWay, also if it has lost its lease to another purge.
    """
    token = uuid4()
    began = database.run(lambda connection: take(connection, database, token))
    if began is None:
        raise PurgeUnderWay(UNDER_WAY)
    is_mine = True
    try:
        horizons = horizons_of(retention, began)
        emails = Walk(database, token, _EMAILS, horizons, horizons_of(usual or retention, began))
        turns = [(Removed(emails=removed) for removed in turn) for turn in emails.turns()]
        if body_retention is not None:
            horizons = horizons_of(Retention.of_all(body_retention), began)
            bodies = Walk(database, token, _BODIES, horizons, horizons)
            turns += [(Removed(bodies=removed) for removed in turn) for turn in bodies.turns()]
        yield from _in_turns(turns)
    except PurgeUnderWay:
        is_mine = False  # nothing to release, and whoever has the mark locked may be long about it
        raise
    finally:
        if is_mine:
            _release(database, token)


def _release(database: Database, token: UUID) -> None:
    """Give up the lease; where the mark stays locked, let the lease run out.

    A purge that asks for the lease locks the mark for a moment, and a host that vanished meanwhile
    for hours. Nobody waits for that.
    """
    until = time.monotonic() + PATIENCE
    work = partial(release, database=database, token=token)
    while not database.run(work) and time.monotonic() < until:
        time.sleep(REST)


def _in_turns(turns: list[Generator[Removed, None, None]]) -> Iterator[Removed]:
    """Take one step of each turn, over and over, so that none keeps another waiting."""
    while turns:
        for turn in list(turns):
            removed = next(turn, None)
            if removed is None:
                turns.remove(turn)
            else:
                yield removed
