"""A second database beside the shop's, on the same server, and an app with both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from flask_sqlalchemy import SQLAlchemy

from outbox import Outbox
from outbox.flask_ext.app.state import state_of
from tests.integration.atomic.binds import Binds, Opened
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


@pytest.fixture
def opened(database_url: str, elsewhere: str, shops: object) -> Iterator[Opened]:
    """Opens such an app in an app context, with the outbox on the bind with this key."""
    made, contexts = list[Binds](), ExitStack()

    def open_on(key: str | None, **config: Any) -> Binds:
        app, db, outbox = Flask("shop"), SQLAlchemy(), Outbox()
        urls = {"SQLALCHEMY_DATABASE_URI": elsewhere, "SQLALCHEMY_BINDS": {"shop": database_url}}
        app.config.update({"MAIL_SERVER": "127.0.0.1", "MAIL_PORT": 1} | urls | config)
        db.init_app(app)
        outbox.init_app(app, db=db, metadata=db.metadatas[key])
        tables = [schema.orders(db.metadatas[each]) for each in (None, "shop")]
        made.append(Binds(app, db, outbox, *tables))
        contexts.enter_context(app.app_context())
        return made[-1]

    yield open_on
    for one in made:
        state_of(one.app).runtime.disconnect()
        one.db.session.remove()
        for engine in one.db.engines.values():
            engine.dispose()
    contexts.close()
