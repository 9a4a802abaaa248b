"""Erases emails that came for people who were erased before, in the transaction that ends them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
from math import inf

from sqlalchemy import Connection, select

from ...domain.delivery.status import Status
from ...domain.errors import RowsLocked
from ...domain.header.address import suppression_key
from ..bounded_waits import bounded_waits
from ..connection.database import Database
from ..connection.list_parts import among
from ..connection.one_by_one import each_for_itself
from .erase import erase_finished

SECONDS = 1
"""The longest wait for what a user's transaction has locked. The worker has other emails."""


def erase_suppressed(connection: Connection, database: Database, ids: Collection[int]) -> None:
    """Erase those of these emails that ended suppressed; each is to one erased person alone.

    The caller has locked them. It stops nothing: emails that cannot be erased stay as they are, and
    are erased when somebody erases that person again.
    """
    if not ids:
        return
    email = database.tables.email.c
    over = among(database, ids) & (email.status == Status.SUPPRESSED)
    of_person: dict[str, set[int]] = defaultdict(set)
    for row in connection.execute(select(email.id, email.recipient).where(over)):
        of_person[suppression_key(row.recipient)].add(row.id)

    def work(some: frozenset[int]) -> None:
        for address, own in of_person.items():
            if own & some:
                erase_finished(connection, database, own & some, address)

    with suppress(RowsLocked), bounded_waits(connection, database, SECONDS):
        each_for_itself(connection, ids, work, "erased", most=inf)
