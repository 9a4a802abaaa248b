"""Entries of the audit that name an address: somebody acted on a tag in which it stands."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, select, update

from ..connection.database import Database
from ..connection.list_parts import among
from ..lookup.forget import addresses
from .naming import names, stands_in
from .placeholder import PLACEHOLDER


def forget_in_audit(
    connection: Connection, database: Database, address: str, tags: Collection[str] = ()
) -> None:
    """Put the placeholder where an entry's filter names the address; who did what stays.

    An entry is nobody's, so a longer address may be another person's, but in these `tags`.
    It reads the whole audit, which has one row for each act of a person.
    """
    audit = database.tables.audit
    may_name = audit.c.what.contains("@") | audit.c.what.contains("=")  # "=" as in VERP
    found = select(audit.c.id, audit.c.what).where(may_name)
    for row in connection.execute(found).all():
        what: dict[str, Any] = json.loads(row.what)
        texts = {key: str(value) for key, value in what.items()}
        named = [key for key, text in texts.items() if text in tags or names(text, address)]
        if named:
            erased = json.dumps(what | dict.fromkeys(named, PLACEHOLDER), ensure_ascii=False)
            mine = update(audit).where(audit.c.id == row.id)
            connection.execute(mine.values(what=erased))


def forget_own_tags(
    connection: Connection, database: Database, ids: Collection[int], address: str
) -> None:
    """Do so for the tags of these emails, which are to this person: `order.smith@…` is theirs.

    It goes before the emails lose their tags.
    """
    email = database.tables.email.c
    tagged = among(database, ids) & email.tag.is_not(None)
    found = select(email.id, email.tag, email.recipients).where(tagged)
    rows = [row for row in connection.execute(found) if not names(row.tag, address)]
    people = addresses(connection, database, [row.id for row in rows if row.recipients > 1])
    own = {row.tag for row in rows if stands_in(row.tag, address, others=people.get(row.id, ()))}
    if own:
        forget_in_audit(connection, database, address, own)
