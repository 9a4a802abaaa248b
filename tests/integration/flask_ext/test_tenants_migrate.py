"""Tables in a schema of their own, beside tenants' schemas: autogenerate knows them if it is told.

The options are those that docs/reference/sessions.md names for `env.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from flask import Flask
from sqlalchemy.orm import scoped_session, sessionmaker

from outbox import Outbox
from outbox.flask_ext.app.state import state_of
from outbox.flask_ext.cli.check import examine
from outbox.flask_ext.management.checks.codes import Code

pytestmark = pytest.mark.databases("postgresql")


@pytest.fixture
def engine(database_url: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(database_url)
    with engine.begin() as connection:
        for name in ("mail", "tenant"):
            connection.exec_driver_sql(f"CREATE SCHEMA {name}")
        connection.exec_driver_sql("CREATE TABLE tenant.orders (id integer)")
    yield engine
    engine.dispose()


def opened(engine: sa.Engine, name: str) -> tuple[Flask, sa.MetaData]:
    """Return an app with Flask-Migrate, and the outbox's own metadata, whose tables are made."""
    app, metadata = Flask("shop"), sa.MetaData(schema=name)
    source = scoped_session(sessionmaker(engine))
    Outbox().init_app(app, session=source, metadata=metadata, engine=engine)
    metadata.create_all(engine)
    app.extensions["migrate"] = SimpleNamespace(db=SimpleNamespace(metadata=sa.MetaData()))
    return app, metadata


def generated(engine: sa.Engine, metadatas: Any, **options: Any) -> list[Any]:
    """Return what `flask db migrate` would write."""
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=options)
        return list(compare_metadata(context, metadatas))


def warned(app: Flask) -> bool:
    with app.app_context():
        found = any(finding.code is Code.MIGRATE for finding in examine(state_of(app).runtime))
    state_of(app).runtime.disconnect()
    return found


@pytest.mark.long
def test_a_schema_with_a_name_of_its_own_is_compared_and_finds_no_change(engine: sa.Engine) -> None:
    app, metadata = opened(engine, "mail")
    of_db = sa.MetaData()

    def include_name(name: str | None, kind: str, _: object) -> bool:
        return kind != "schema" or name in (None, "mail")

    assert (
        generated(engine, [of_db, metadata], include_schemas=True, include_name=include_name) == []
    )
    assert generated(engine, of_db) == []
    assert not warned(app)


@pytest.mark.long
def test_tables_named_into_the_default_schema_would_be_removed_and_check_says_so(
    engine: sa.Engine,
) -> None:
    app, metadata = opened(engine, "public")
    removed = {one[1].name for one in generated(engine, sa.MetaData()) if one[0] == "remove_table"}
    assert "outbox_email" in removed
    # Given their metadata, Alembic would still make their foreign keys anew each time.
    assert {one[0] for one in generated(engine, [sa.MetaData(), metadata])} == {
        "add_fk",
        "remove_fk",
    }
    assert warned(app)
