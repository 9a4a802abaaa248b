"""Entries of the audit that name an address: somebody acted on a tag in which it stands."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, select, update

from ..connection.database import Database
from .naming import names
from .placeholder import PLACEHOLDER


def forget_deeds(connection: Connection, database: Database, address: str) -> None:
    """Put the placeholder where an entry's filter names the address; who did what stays.

    It reads the whole audit, which has one row for each act of a person.
    """
    audit = database.tables.audit
    may_name = audit.c.what.contains("@") | audit.c.what.contains("=")  # "=" as in VERP
    found = select(audit.c.id, audit.c.what).where(may_name)
    for row in connection.execute(found).all():
        what: dict[str, Any] = json.loads(row.what)
        named = [key for key, value in what.items() if names(str(value), address)]
        if named:
            erased = json.dumps(what | dict.fromkeys(named, PLACEHOLDER), ensure_ascii=False)
            mine = update(audit).where(audit.c.id == row.id)
            connection.execute(mine.values(what=erased))
