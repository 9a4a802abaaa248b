"""Nothing can be enqueued, though nothing waits: `health` and `watch` say so, and why."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from outbox.flask_ext.management.checks import trial
from tests.integration.flask_ext.cli.check.test_trial import CODES, writing
from tests.support.shop.schema import refusing
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops


@pytest.mark.databases("postgresql", "mariadb")
def test_a_full_disk_is_told_once_by_watch_and_its_end_too(shop: Shop) -> None:
    code = CODES[shop.engine.dialect.name]

    def watched() -> str:
        return str(runner(shop)("watch").output)

    assert watched() == ""
    with refusing(shop.engine, "outbox_content", "TRUE", event="INSERT", code=code):
        told = runner(shop)("health", code=1).output
        assert [bool(watched()), bool(watched())] == [True, False]
    assert "has no room left on its disk" in told
    assert "make room there" in told
    assert "outbox: healthy" in watched()
    assert shop.outbox.health().healthy
    assert shop.count(shop.tables.email) == 0


@pytest.mark.databases("postgresql")
def test_a_database_that_is_read_only_is_unhealthy(shops: Shops, database_url: str) -> None:
    options = {"options": "-c default_transaction_read_only=on"}
    engine = sa.create_engine(database_url, connect_args=options)
    shop = shops.open_on(engine)
    assert "takes no writes" in runner(shop)("health", code=1).output
    assert "takes no writes" in runner(shop)("watch").output
    assert shop.outbox.health(ask=False).healthy, "then the tables are only read"


@pytest.mark.databases("sqlite")
def test_a_file_that_may_not_be_written_is_unhealthy(shops: Shops, database_url: str) -> None:
    path = Path(str(sa.make_url(database_url).database))
    shop = shops.open_on(sa.create_engine(f"sqlite:///file:{path}?mode=ro&uri=true"))
    assert "takes no writes" in runner(shop)("health", code=1).output


@pytest.mark.databases("sqlite")
def test_a_writer_that_keeps_its_transaction_open_is_told(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "WRITER", 0.5)
    with writing(shop.engine, "BEGIN IMMEDIATE"):
        told = runner(shop)("health", code=1).output
        assert shop.outbox.health(ask=False).healthy, "then the tables are only read"
    assert "is locked by another writer, so nothing can be enqueued" in told
    assert shop.outbox.health().healthy


@pytest.mark.databases("sqlite")
def test_a_session_that_has_written_is_not_waited_for(shop: Shop) -> None:
    with shop.session() as session:
        shop.order(session)
        session.flush()
        made = list[str]()
        sa.event.listen(shop.engine, "before_cursor_execute", lambda *given: made.append(given[2]))

        def tries() -> bool:
            made.clear()
            assert shop.outbox.health().healthy
            return any("INSERT INTO outbox_content" in one for one in made)

        assert not tries()
        session.rollback()
        assert tries()
