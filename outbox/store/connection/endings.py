"""Which emails a transaction ended as sent, failed or unknown: told once it has committed.

A transaction may run several times, and a savepoint of it may be taken back. So what it ended is
noted beside its connection, and only `Database.run` tells it. Where nobody listens nothing is noted
and no statement is added.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, TypeAlias

from sqlalchemy import Connection

from ...domain.delivery.status import Status

Ending: TypeAlias = tuple[Status, int]
"""The status that an email has now, and its id."""

TOLD = frozenset({Status.SENT, Status.FAILED, Status.UNKNOWN})
"""The statuses of which an audience is told."""

_KEY = "outbox_endings"


class Audience(Protocol):
    """Whoever is to hear of emails that ended."""

    @property
    def listens(self) -> bool:
        """Whether it wants to hear of any; asked before each transaction."""

    def tell(self, endings: Mapping[Status, Collection[int]]) -> None:
        """Hear the ids of committed emails by the status that they ended in; none is empty."""


class Nobody:
    """The audience of a database whose emails nobody wants to hear of."""

    listens = False

    def tell(self, endings: Mapping[Status, Collection[int]]) -> None:
        """Hear nothing."""


@contextmanager
def noted(connection: Connection) -> Iterator[list[Ending]]:
    """Note in the list what ends over this connection within the block."""
    info, found = connection.info, list[Ending]()
    info[_KEY] = found
    try:
        yield found
    finally:
        info.pop(_KEY, None)


def note(connection: Connection, endings: Iterable[Ending]) -> None:
    """Note emails that ended, where somebody listens; only then are they gone through."""
    found: list[Ending] | None = connection.info.get(_KEY)
    if found is not None:
        found += (ending for ending in endings if ending[0] in TOLD)


@contextmanager
def taken_back_on_error(connection: Connection) -> Iterator[None]:
    """Forget what was noted within the block where it fails: its savepoint is rolled back."""
    found: list[Ending] = connection.info.get(_KEY, [])
    before = len(found)
    try:
        yield
    except BaseException:
        del found[before:]
        raise


def by_status(endings: Iterable[Ending]) -> dict[Status, tuple[int, ...]]:
    """Return the ids of each status, of those that are told; in ascending order."""
    found: dict[Status, list[int]] = defaultdict(list)
    for status, email_id in endings:
        if status in TOLD:
            found[status].append(email_id)
    return {status: tuple(sorted(ids)) for status, ids in found.items()}
