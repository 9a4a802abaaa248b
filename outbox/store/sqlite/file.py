"""Which database SQLite has open: its file tells."""

from __future__ import annotations

import os
from collections.abc import Hashable

from sqlalchemy import Connection


def identity(connection: Connection) -> Hashable:
    """Return the file's path; of a database in memory, what only its connections share."""
    listed = connection.exec_driver_sql("PRAGMA database_list").all()
    file = next((row[2] for row in listed if row[1] == "main"), "")
    if file:
        return os.path.realpath(file)
    url = str(connection.engine.url)  # in memory: a pool's own, but for a cache that is shared
    return url if "cache=shared" in url else id(connection.engine.pool)
