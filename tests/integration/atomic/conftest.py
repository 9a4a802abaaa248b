"""A second database beside the shop's, on the same server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.support.servers.databases import sqlite
from tests.support.servers.databases.mariadb import MariaDB
from tests.support.servers.databases.postgres import Postgres
from tests.support.shop import schema


@pytest.fixture
def elsewhere(database_url: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of another database with a shop's tables."""
    backend = sa.make_url(database_url).get_backend_name()
    if backend == "sqlite":
        yield sqlite.new_database(tmp_path, schema.fill)
        return
    server: Postgres | MariaDB = request.getfixturevalue(
        {"postgresql": "postgres", "mariadb": "mariadb"}[backend]
    )
    url = server.lend_database(schema.fill)
    yield url
    server.take_back(url)
