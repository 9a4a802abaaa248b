"""Identifies the database that SQLite has open, by its file."""

from __future__ import annotations

import os
from collections.abc import Hashable

from sqlalchemy import Connection


def identity(connection: Connection) -> Hashable:
    """Return the file's path or, for a database in memory, a value that its connections share."""
    listed = connection.exec_driver_sql("PRAGMA database_list").all()
    file = next((row[2] for row in listed if row[1] == "main"), "")
    if file:
        return os.path.realpath(file)
    url = str(connection.engine.url)  # in memory: each pool has its own, without a shared cache
    return url if "cache=shared" in url else id(connection.engine.pool)
