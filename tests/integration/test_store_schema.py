"""What `flask outbox check` knows of the database."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, event

from outbox.store.database import Database
from outbox.store.schema import differences, weakened
from tests.integration.conftest import Shop


def test_a_complete_schema_differs_in_nothing(shop: Shop) -> None:
    assert differences(shop.database) == []


@pytest.mark.databases("postgresql")
def test_a_postgresql_that_may_forget_a_commit_is_told(shop: Shop, database_url: str) -> None:
    engine = create_engine(database_url)

    @event.listens_for(engine, "connect")
    def forgetful(connection: object, _: object) -> None:
        connection.execute("SET synchronous_commit = off")  # type: ignore[attr-defined]
        connection.commit()  # type: ignore[attr-defined]

    found = weakened(Database(engine, shop.tables))
    engine.dispose()
    assert "PostgreSQL's synchronous_commit is off" in found
