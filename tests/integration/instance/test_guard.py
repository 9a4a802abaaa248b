"""Who may send: an app of another name does not, and nobody notices it who needs not."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from outbox import Status
from outbox.store.instance import row
from outbox.store.retention.purge import Removed
from outbox.store.schema.version import VERSION, is_mark
from outbox.worker.batch.batch_end import BatchEnd
from outbox.worker.batch.send_batch import send_batch
from outbox.worker.drain import drain
from outbox.worker.instance_guard import RETRY
from outbox.worker.purge import purge_briefly
from outbox.worker.sweep import sweep
from tests.integration.store.queries.plans.generic_plans import statements
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.each_database


def noted(shop: Shop) -> sa.Row[object]:
    [found] = shop.rows(shop.tables.instance)
    return found


@contextmanager
def asked(shop: Shop) -> Iterator[list[str]]:
    """Collect the statements that name the instance's table."""
    found: list[str] = []

    def note(_c: object, _u: object, statement: str, *_: object) -> None:
        if "outbox_instance" in statement and "UNION ALL" not in statement:
            found.append(statement)

    sa.event.listen(shop.engine, "before_cursor_execute", note)
    yield found
    sa.event.remove(shop.engine, "before_cursor_execute", note)


def test_an_app_that_names_no_instance_sends_and_notes_one(
    sending: Shop, catcher: Catcher, caplog: pytest.LogCaptureFixture
) -> None:
    sending.enqueue()
    assert drain(sending.runtime) == 1
    assert (noted(sending).name, len(catcher.emails)) == ("", 1)
    assert sending.outbox.health().healthy
    assert not caplog.records


@pytest.mark.long
def test_an_app_of_another_name_claims_sends_and_purges_nothing(
    shops: Shops, catcher: Catcher, caplog: pytest.LogCaptureFixture
) -> None:
    production = shops.open(MAIL_PORT=catcher.port, OUTBOX_INSTANCE="production")
    production.enqueue()
    assert drain(production.runtime) == 1
    claimed = production.enqueue()
    [made] = production.claim()
    due = production.enqueue()

    copy = shops.open(MAIL_PORT=catcher.port, OUTBOX_INSTANCE="staging", OUTBOX_RETENTION=0)
    with caplog.at_level(logging.WARNING):
        assert [drain(copy.runtime) for _ in range(5)] == [0] * 5
        assert send_batch(copy.runtime, made.token).end is BatchEnd.COPY
        assert purge_briefly(copy.runtime) == Removed()
    assert len(catcher.emails) == 1
    assert copy.statuses() == [Status.SENT, Status.CLAIMED, Status.PENDING]
    assert [copy.status(email.id) for email in (claimed, due)] == ["claimed", "pending"]
    [line] = [one.getMessage() for one in caplog.records]
    assert "OUTBOX_INSTANCE is 'staging', but these tables are 'production''s" in line

    told = [copy.outbox.health().problems[0], runner(copy)("drain", code=1).output]
    told += [runner(copy)("sweep", code=1).output, runner(copy)("purge", code=1).output]
    told += [copy.outbox.get(due.id).waits[0]]  # type: ignore[union-attr]
    assert all("flask outbox restored" in text for text in told), told
    assert not copy.outbox.health().healthy
    assert "error  nothing is sent" in runner(copy)("check", code=1).output


@pytest.mark.long
def test_a_process_asks_once_a_minute_and_not_for_each_sweep(sending: Shop) -> None:
    drain(sending.runtime)
    with asked(sending) as statements:
        for _ in range(20):
            sending.enqueue()
            sweep(sending.runtime, lambda made: None)
        assert statements == []
        now = sending.runtime.clock()
        sending.runtime.clock = lambda: now + 61.0
        sweep(sending.runtime, lambda made: None)
        assert len(statements) >= 1


@pytest.mark.databases("postgresql")
def test_to_ask_and_to_note_that_it_lives_takes_four_statements_and_no_commit(
    sending: Shop,
) -> None:
    drain(sending.runtime)
    first = noted(sending)
    sending.later(61)
    now = sending.runtime.clock()
    sending.runtime.clock = lambda: now + 61.0
    commits: list[object] = []
    sa.event.listen(sending.engine, "commit", commits.append)
    found = statements(sending, lambda shop: shop.runtime.instance.refusal())
    assert [one.split()[0] for one in found] == ["SELECT"] * 3 + ["UPDATE"]
    assert not commits
    assert noted(sending).seen_at > first.seen_at


def test_a_living_instance_is_noted_by_the_minute(sending: Shop) -> None:
    drain(sending.runtime)
    first = noted(sending)
    for seconds, same in ((10.0, True), (61.0, False)):
        sending.later(seconds)
        sending.runtime.instance.forget()
        now = sending.runtime.clock()
        sending.runtime.clock = lambda now=now: now + 10.0  # type: ignore[misc]
        drain(sending.runtime)
        assert (noted(sending).seen_at == first.seen_at) is same


@pytest.mark.long
def test_a_restore_by_another_host_stops_a_running_process_with_its_next_sweep(
    shops: Shops, catcher: Catcher
) -> None:
    worker = shops.open(MAIL_PORT=catcher.port, OUTBOX_INSTANCE="production")
    worker.enqueue()
    assert drain(worker.runtime) == 1
    other = shops.open(MAIL_PORT=catcher.port, OUTBOX_INSTANCE="staging")
    other.outbox.restored()
    worker.enqueue()
    assert drain(worker.runtime) == 0
    assert drain(other.runtime) == 1


def test_a_database_that_was_restored_under_a_running_process_is_asked_over_a_new_connection(
    shops: Shops, catcher: Catcher
) -> None:
    worker = shops.open(MAIL_PORT=catcher.port, OUTBOX_INSTANCE="production")
    worker.enqueue()
    assert drain(worker.runtime) == 1
    database = worker.database
    database.run(lambda c: row.change(c, database, name="an older backup's"))
    worker.enqueue()
    later = worker.runtime.clock() + 10.0  # within the minute
    worker.runtime.clock = lambda: later
    worker.engine.dispose()
    assert drain(worker.runtime) == 0


def test_a_new_connection_of_another_engine_has_nothing_asked(sending: Shop) -> None:
    drain(sending.runtime)
    later = sending.runtime.clock() + 10.0  # within the minute
    sending.runtime.clock = lambda: later
    other = sa.create_engine(sending.engine.url)
    with asked(sending) as statements:
        other.connect().close()
        other.dispose()
        drain(sending.runtime)
        assert statements == []
        with sending.engine.connect(), sending.engine.connect():
            pass
        drain(sending.runtime)
        assert statements != []


def test_nothing_is_sent_while_a_restore_is_under_way(sending: Shop, catcher: Catcher) -> None:
    sending.enqueue()
    database = sending.database
    drain(sending.runtime)
    database.run(lambda c: row.change(c, database, instance="another", holding_at=database.now()))
    sending.enqueue()
    assert drain(sending.runtime) == 0
    assert "has not come to its end" in sending.outbox.health().problems[0]
    sending.outbox.restored()
    sending.enqueue()
    assert drain(sending.runtime) == 1


@pytest.mark.databases("postgresql")
def test_the_original_takes_a_name_by_itself_where_the_database_tells_who_it_is(
    shops: Shops, catcher: Catcher
) -> None:
    drain(shops.open().runtime)
    shop = shops.open(MAIL_PORT=catcher.port, OUTBOX_INSTANCE="production")
    shop.enqueue()
    assert drain(shop.runtime) == 1
    assert noted(shop).name == "production"


@pytest.mark.databases("sqlite", "mariadb")
def test_elsewhere_a_person_says_that_the_original_got_a_name(
    shops: Shops, catcher: Catcher
) -> None:
    drain(shops.open().runtime)
    shop = shops.open(MAIL_PORT=catcher.port, OUTBOX_INSTANCE="production")
    shop.enqueue()
    assert drain(shop.runtime) == 0
    assert "made without a name" in shop.outbox.health().problems[0]
    runner(shop)("moved")
    assert drain(shop.runtime) == 1
    assert noted(shop).name == "production"


@pytest.mark.long
def test_an_app_without_a_name_claims_sends_and_purges_nothing_where_the_tables_have_one(
    shops: Shops, catcher: Catcher
) -> None:
    production = shops.open(MAIL_PORT=catcher.port, OUTBOX_INSTANCE="production")
    drain(production.runtime)
    due = production.enqueue()
    nameless = shops.open(MAIL_PORT=catcher.port, OUTBOX_RETENTION=0)
    assert (drain(nameless.runtime), purge_briefly(nameless.runtime)) == (0, Removed())
    assert (len(catcher.emails), production.status(due.id)) == (0, "pending")
    told = "error  nothing is sent: OUTBOX_INSTANCE is not set, but these tables are 'production'"
    assert told in runner(nameless)("check", code=1).output

    runner(nameless)("moved")
    assert noted(nameless).name == ""
    assert (drain(nameless.runtime), len(catcher.emails)) == (1, 1)


def test_a_process_whose_migration_was_forgotten_says_so_once_and_goes_on_after_it(
    shops: Shops, catcher: Catcher, caplog: pytest.LogCaptureFixture
) -> None:
    shop = shops.open(MAIL_PORT=catcher.port)
    shop.enqueue()
    [mark] = [index for index in shop.tables.pause.indexes if is_mark(index.name)]
    mark.drop(shop.engine)
    assert (drain(shop.runtime), drain(shop.runtime)) == (0, 0)
    text = f"the database's schema is version 0, the code's {VERSION}: the database is older"
    [line] = caplog.records
    assert (line.levelname, line.getMessage()) == ("ERROR", f"outbox: {text}, run your migrations")

    mark.create(shop.engine)
    later = shop.runtime.clock() + RETRY
    shop.runtime.clock = lambda: later
    assert drain(shop.runtime) == 1
