"""Reads emails with all that was enqueued, their octets included: for pages, and an app's tests."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from zlib import crc32

from sqlalchemy import Connection, Row, select

from ...domain.config.settings import OnUnknown
from ...domain.delivery.status import Status
from ...domain.priority import Priority
from ..connection.database import Database
from ..connection.list_parts import parts
from ..encryption.cipher import MissingKey
from ..encryption.parts import Content, in_clear
from ..schema.clock import utc


@dataclass(frozen=True, kw_only=True)
class WholeEmail:
    """An email with its recipients and its octets."""

    id: int
    status: Status
    priority: Priority
    key: str | None
    tag: str | None
    recipients: tuple[str, ...]
    sender: str  # of the envelope; "" asks for no bounces
    attempts: int
    due_at: datetime | None
    send_at: datetime | None
    expires_at: datetime | None
    octets: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Original(WholeEmail):
    """An email with what a copy of it needs."""

    on_unknown: OnUnknown | None
    max_attempts: int | None
    message_id: str
    smtputf8: bool
    redact: bool
    esmtp_options: tuple[tuple[str, ...], tuple[str, ...]]  # the message's own, of MAIL and of RCPT


class Mark(NamedTuple):
    """The newest email at some moment; the emails that come later have higher ids."""

    id: int = 0
    message_id: str = ""


def newest(connection: Connection, database: Database) -> Mark:
    """Return the mark of the email with the highest id."""
    email = database.tables.email.c
    statement = select(email.id, email.message_id).order_by(email.id.desc()).limit(1)
    found = connection.execute(statement).one_or_none()
    return Mark() if found is None else Mark(found.id, found.message_id)


def now(connection: Connection, database: Database) -> datetime:
    """Return the database's time, with the offset."""
    return utc(connection.execute(select(database.now())).scalar_one())


def later_than(connection: Connection, database: Database, mark: Mark) -> list[WholeEmail]:
    """Return the emails that came after the mark, in the order of ids.

    Where the marked email is gone, somebody has emptied the table, and ids may have begun anew:
    then all emails came later.
    """
    email = database.tables.email
    marked = select(email.c.message_id).where(email.c.id == mark.id)
    after = mark.id if connection.execute(marked).scalar() == mark.message_id else 0
    rows = connection.execute(select(email).where(email.c.id > after).order_by(email.c.id)).all()
    return [WholeEmail(**values) for values in _whole(connection, database, rows)]


def by_id(connection: Connection, database: Database, email_id: int) -> Original | None:
    """Return one email, or None where it is missing, or its content is damaged or redacted.

    Returns None, too, where it is encrypted with a key that is missing.
    """
    email = database.tables.email
    row = connection.execute(select(email).where(email.c.id == email_id)).one_or_none()
    if row is None:
        return None
    try:
        [values] = _whole(connection, database, [row])
    except (KeyError, ValueError, MissingKey):  # the content is gone, or not what it was
        return None
    found = Original(
        **values,
        on_unknown=None if row.on_unknown is None else OnUnknown(row.on_unknown),
        max_attempts=row.max_attempts,
        message_id=row.message_id,
        smtputf8=row.smtputf8,
        redact=bool(row.redact),
        esmtp_options=_options(row.esmtp_options),
    )
    return found if len(found.octets) == row.size else None


def _whole(
    connection: Connection, database: Database, rows: Sequence[Row[Any]]
) -> list[dict[str, Any]]:
    """Return the values of `WholeEmail` for each row."""
    several = _recipients(connection, database, [row.id for row in rows if row.recipients > 1])
    bodies = _bodies(connection, database, {row.content_id for row in rows})
    return [
        {
            "id": row.id,
            "status": Status(row.status),
            "priority": Priority(row.priority),
            "key": row.key,
            "tag": row.tag,
            "recipients": several.get(row.id, (row.recipient,)),
            "sender": row.sender,
            "attempts": row.attempts,
            "due_at": _moment(row.due_at),
            "send_at": _moment(row.send_at),
            "expires_at": _moment(row.expires_at),
            "octets": in_clear(database.cipher, row, bodies[row.content_id]),
        }
        for row in rows
    ]


def _recipients(
    connection: Connection, database: Database, ids: list[int]
) -> dict[int, tuple[str, ...]]:
    table = database.tables.recipient
    found: dict[int, tuple[str, ...]] = defaultdict(tuple)
    for part in parts(ids):
        statement = select(table.c.email_id, table.c.address).where(table.c.email_id.in_(part))
        for row in connection.execute(statement.order_by(table.c.email_id, table.c.position)):
            found[row.email_id] += (row.address,)
    return found


def _bodies(connection: Connection, database: Database, ids: Iterable[int]) -> dict[int, Content]:
    content = database.tables.content.c
    found: dict[int, Content] = {}
    for part in parts(sorted(ids)):
        columns = content.id, content.crc32, content.key_id, content.body
        rows = connection.execute(select(*columns).where(content.id.in_(part)))
        found |= {one: Content(body, key) for one, crc, key, body in rows if crc32(body) == crc}
    return found


def _options(stored: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if stored is None:
        return (), ()
    mail, rcpt = json.loads(stored)
    return tuple(mail), tuple(rcpt)


def _moment(moment: Any) -> datetime | None:
    return None if moment is None else utc(moment)
