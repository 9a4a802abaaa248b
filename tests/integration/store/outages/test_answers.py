"""Whatever the database answers to a record: what was sent is recorded, and not sent again."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from outbox.store.transitions.window import LOST
from outbox.worker.drain import drain
from outbox.worker.process import retry_writes
from tests.support.servers.smtp.catcher import Catcher, CaughtMail
from tests.support.shop.shop import Shop, Shops, addresses
from tests.support.waiting import wait_until

MAILS, WINDOW = 9, 3
PATIENCE = 30.0

READ_ONLY = "ALTER SYSTEM SET default_transaction_read_only = on"
WRITABLE = "ALTER SYSTEM RESET default_transaction_read_only"
RELOAD = "SELECT pg_reload_conf()"

TRIGGERS = {
    "postgresql": (
        "CREATE TABLE fault (code varchar(5))",
        "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$"
        " DECLARE found text := (SELECT min(code) FROM fault); BEGIN"
        " IF found IS NOT NULL THEN RAISE EXCEPTION USING ERRCODE = found; END IF;"
        " RETURN NEW; END $$",
        "CREATE TRIGGER fails BEFORE UPDATE ON outbox_email FOR EACH ROW EXECUTE FUNCTION fails()",
    ),
    "mariadb": (
        "CREATE TABLE fault (code smallint)",
        "CREATE TRIGGER fails BEFORE UPDATE ON outbox_email FOR EACH ROW BEGIN"
        " DECLARE found smallint DEFAULT (SELECT min(code) FROM fault);"
        " IF found IS NOT NULL THEN SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = found; END IF; END",
    ),
}


def execute(shop: Shop, *statements: str) -> None:
    with shop.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in statements:
            connection.execute(sa.text(statement))


def told(caplog: pytest.LogCaptureFixture, code: int | str) -> int:
    return sum(str(code) in record.getMessage() for record in caplog.records)


@contextmanager
def drained(shop: Shop, *mend: str) -> Iterator[Future[int]]:
    """Enqueue and drain; mend the database at the end of the block."""
    for address in addresses(MAILS):
        shop.enqueue(address)
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(drain, shop.runtime)
        try:
            yield working
        finally:
            execute(shop, *mend)
        working.result(PATIENCE)


def recorded_once(shop: Shop, catcher: Catcher) -> bool:
    """Whether every email is sent, at the first attempt, and nobody has two copies."""
    ends = {
        (m.status, m.attempts, m.crashes, m.unknown_count) for m in shop.rows(shop.tables.email)
    }
    assert ends == {("sent", 1, 0, 0)}
    assert set(catcher.copies().values()) == {1}
    return len(catcher.copies()) == MAILS


@pytest.fixture(autouse=True)
def _each_try_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry_writes, "TOLD_EVERY", 0.0)


@pytest.fixture
def shop(shops: Shops, catcher: Catcher) -> Shop:
    return shops.open(MAIL_PORT=catcher.port, OUTBOX_WINDOW=WINDOW, OUTBOX_SLOTS=1)


def drain_through(
    shop: Shop, catcher: Catcher, caplog: pytest.LogCaptureFixture, code: int | str
) -> None:
    """Drain; from the first window's last email on, writes fail until that was told twice."""
    execute(shop, *TRIGGERS["postgresql" if isinstance(code, str) else "mariadb"])

    def fail(_: CaughtMail) -> None:
        if len(catcher.emails) == WINDOW - 1:
            execute(shop, f"INSERT INTO fault VALUES ({code!r})")

    catcher.reply_to_content = fail
    with caplog.at_level(logging.WARNING, "outbox"), drained(shop, "DELETE FROM fault") as work:
        wait_until(
            lambda: work.done() or told(caplog, code) > 1, PATIENCE, "the error to be met twice"
        )
    assert recorded_once(shop, catcher)
    assert "@" not in caplog.text


@pytest.mark.long
@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("code", ["25006", "42P05", "26000", "53100", "57P03", "XX000"])
def test_a_result_is_kept_until_postgresql_takes_it(
    shop: Shop, catcher: Catcher, caplog: pytest.LogCaptureFixture, code: str
) -> None:
    drain_through(shop, catcher, caplog, code)


@pytest.mark.databases("mariadb")
@pytest.mark.parametrize("code", [1836, 1290, 1205, 1142])
def test_a_result_is_kept_until_mariadb_takes_it(
    shop: Shop, catcher: Catcher, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    drain_through(shop, catcher, caplog, code)


@pytest.mark.long
@pytest.mark.databases("postgresql")
def test_what_was_sent_before_the_database_became_read_only_is_recorded_afterwards(
    shop: Shop, catcher: Catcher, caplog: pytest.LogCaptureFixture
) -> None:
    def read_only(_: CaughtMail) -> None:
        if len(catcher.emails) == WINDOW - 1:
            execute(shop, READ_ONLY, RELOAD)

    catcher.reply_to_content = read_only
    with caplog.at_level(logging.WARNING, "outbox"), drained(shop, WRITABLE, RELOAD) as work:
        wait_until(
            lambda: work.done() or told(caplog, "25006") > 1, PATIENCE, "the error to be met twice"
        )
    assert recorded_once(shop, catcher)


@pytest.mark.databases("postgresql")  # elsewhere a COMMIT is sent behind the statement
def test_a_record_that_a_stalled_server_runs_late_takes_nothing_out_of_a_later_window(
    shops: Shops, catcher: Catcher
) -> None:
    """It tells of emails whose turn did not come, and was made again over another connection."""
    shop = shops.open(MAIL_PORT=catcher.port, OUTBOX_WINDOW_SECONDS=1.0, OUTBOX_SLOTS=1)
    now, stalled, late = [0.0], list[tuple[str, Any]](), list[int]()
    shop.runtime.clock = lambda: now[0]

    @sa.event.listens_for(shop.engine, "before_cursor_execute")
    def stall(
        connection: sa.Connection, _cursor: object, statement: str, values: Any, *_: object
    ) -> None:
        if not stalled and isinstance(values, dict) and "claimed" in values.get("statuses", ()):
            stalled.append((statement, values))
            connection.connection.driver_connection.close()  # type: ignore[union-attr]

    def slowly(_: CaughtMail) -> None:
        now[0] += 0.6
        if stalled and not late:
            late.append(len(catcher.emails))
            with shop.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as server:
                server.exec_driver_sql(*stalled[0])

    catcher.reply_to_content = slowly
    for address in addresses(4):
        shop.enqueue(address)
    drain(shop.runtime)
    assert late == [2]
    assert (shop.statuses(), shop.counter(LOST)) == (["sent"] * 4, 0)
    assert set(catcher.copies().values()) == {1}
