"""Erases a person from finished emails, in one transaction.

The emails' rows stay, for the figures: when they were enqueued, how they ended, over which server.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Row, select, update

from ...domain.delivery.status import FINISHED, Status, sources
from ...domain.header.address import suppression_key
from ...domain.search.digests import message_id_digest, recipient_digests
from ..connection.database import Database
from ..connection.list_parts import among, is_among
from ..lookup.forget import remove_pairs
from . import contents
from .naming import names, stands_in
from .placeholder import PLACEHOLDER

_NOTHING_SAID: dict[str, Any] = {
    "headers": b"", "merge": None, "esmtp_options": None, "fingerprint": None, "traceparent": None,
}  # fmt: skip
"""The columns that may name a person, lead to one, or tell what was said to one."""


def erase_finished(
    connection: Connection, database: Database, ids: Collection[int], address: str
) -> frozenset[int]:
    """Erase the person with this address from those of these emails that are over; return them.

    The caller has locked the emails, which are all to this person. An email is left if another one
    that is not over has its content.
    """
    rows = _finished(connection, database, ids)
    judged = contents.judge(connection, database, rows, address)
    rows = [row for row in rows if row.content_id not in judged.busy]
    if not rows:
        return frozenset()
    gone = [row.id for row in rows]
    contents.empty(connection, database, judged.own)
    several = [row.id for row in rows if row.recipients > 1]
    people = _erase_recipients(connection, database, several, address)
    email, attempt = database.tables.email, database.tables.attempt
    erased = update(email).where(among(database, gone))
    connection.execute(erased.values(redacted_at=database.now(), **_NOTHING_SAID))
    looked_up = [(digest, row.id) for row in rows for digest in recipient_digests(address)]
    for row in rows:
        if changed := _names(row, address, people.get(row.id, ())):
            connection.execute(update(email).where(email.c.id == row.id).values(**changed))
        if "message_id" in changed:
            looked_up.append((message_id_digest(row.message_id), row.id))
    replied = is_among(database, attempt.c.email_id, gone)
    connection.execute(update(attempt).where(replied).values(reply=""))  # it may quote the address
    remove_pairs(connection, database, looked_up)
    return frozenset(gone)


def waiting_alone(connection: Connection, database: Database, ids: Collection[int]) -> list[int]:
    """Return those of these emails that can be withdrawn, and have no other recipient."""
    email = database.tables.email.c
    unsent = email.status.in_(sources(Status.CANCELLED)) & (email.recipients == 1)
    found = select(email.id).where(among(database, ids), unsent).order_by(email.id)
    return list(connection.execute(found).scalars())


def _finished(
    connection: Connection, database: Database, ids: Collection[int]
) -> Sequence[Row[Any]]:
    email = database.tables.email.c
    columns = (
        email.id, email.content_id, email.recipient, email.recipients, email.headers,
        email.redacted_at,
        *(email[name] for name in _NAMING),
    )  # fmt: skip
    statement = select(*columns).where(among(database, ids), email.status.in_(sorted(FINISHED)))
    return connection.execute(statement.order_by(email.id)).all()


_NAMING = ("sender", "message_id", "key", "tag")
"""The columns in which an address may stand, beside the recipient's."""
_ERASED = {"sender": PLACEHOLDER, "message_id": f"<{PLACEHOLDER}>"}
"""What is put into those that may not be null."""


def _names(row: Row[Any], address: str, people: Iterable[str]) -> dict[str, str | None]:
    """Return what is put into the columns of an email's row in which the address stands."""
    changed = {
        name: _ERASED.get(name)
        for name in _NAMING
        if stands_in(getattr(row, name), address, others=people)
    }
    is_first = suppression_key(row.recipient) == suppression_key(address)
    return changed | ({"recipient": PLACEHOLDER} if is_first else {})


def _erase_recipients(
    connection: Connection, database: Database, ids: Collection[int], address: str
) -> dict[int, list[str]]:
    """Erase the person among the recipients of emails that have several, and in replies to them.

    Return all of these recipients' addresses, by email.
    """
    table, people = database.tables.recipient, defaultdict[int, list[str]](list)
    found = select(table).where(is_among(database, table.c.email_id, ids))
    for row in connection.execute(found).all() if ids else ():
        people[row.email_id].append(row.address)
        is_person = suppression_key(row.address) == suppression_key(address)
        if is_person or names(row.reply, address):
            changed = update(table).where(
                table.c.email_id == row.email_id, table.c.position == row.position
            )
            values = {"reply": None} | ({"address": PLACEHOLDER} if is_person else {})
            connection.execute(changed.values(**values))
    return people
