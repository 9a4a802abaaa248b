"""Notes which emails a transaction ended as sent, failed or unknown, for use after its commit.

A transaction may run several times, and one of its savepoints may be rolled back. So its endings
are noted beside its connection, and only `Database.run` tells the audience. If nobody listens,
nothing is noted and no statement is added.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from sqlalchemy import Connection

from ...domain.delivery.status import Status


class Ending(NamedTuple):
    """An email that ended."""

    status: Status
    email_id: int
    cause: str = ""  # for people: a phase and codes, or words of ours; never an address


TOLD = frozenset({Status.SENT, Status.FAILED, Status.UNKNOWN})
"""The statuses that an audience is told about."""

_KEY = "outbox_endings"


class Audience(Protocol):
    """An object that is told about emails that ended."""

    @property
    def wants(self) -> Collection[Status]:
        """The statuses that the audience wants to hear of; asked for before each transaction."""

    def tell(self, endings: Sequence[Ending]) -> None:
        """Take those endings of one committed transaction that it wants: one or more."""


class Nobody:
    """The audience of a database without listeners."""

    wants: Collection[Status] = ()

    def tell(self, endings: Sequence[Ending]) -> None:
        """Do nothing."""


@contextmanager
def noted(connection: Connection) -> Iterator[list[Ending]]:
    """Collect in the list the endings that are noted for this connection within the block."""
    info, found = connection.info, list[Ending]()
    info[_KEY] = found
    try:
        yield found
    finally:
        info.pop(_KEY, None)


def note_endings(connection: Connection, endings: Iterable[Ending]) -> None:
    """Note emails that ended. If nobody listens, `endings` is not iterated."""
    found: list[Ending] | None = connection.info.get(_KEY)
    if found is not None:
        found += (ending for ending in endings if ending.status in TOLD)


@contextmanager
def taken_back_on_error(connection: Connection) -> Iterator[None]:
    """Forget what the block noted if it fails, because its savepoint is rolled back."""
    found: list[Ending] = connection.info.get(_KEY, [])
    before = len(found)
    try:
        yield
    except BaseException:
        del found[before:]
        raise


def by_status(endings: Iterable[Ending]) -> dict[Status, tuple[int, ...]]:
    """Return the ids by status, ascending."""
    found: dict[Status, list[int]] = defaultdict(list)
    for ending in endings:
        found[ending.status].append(ending.email_id)
    return {status: tuple(sorted(ids)) for status, ids in found.items()}
