"""Nobody who calls a verb waits for long for a row that another transaction holds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, TypeAlias

import pytest
import sqlalchemy as sa
from celery.exceptions import SoftTimeLimitExceeded
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from outbox import JobState, Outbox, Priority, Restored, RowsLocked
from outbox.store.bounded_waits import run_bounded
from outbox.store.connection.database import Database
from outbox.store.connection.error_codes import is_outage
from outbox.store.control import pause as pauses
from outbox.store.control import suppression
from outbox.store.jobs.step import step
from outbox.worker import jobs
from tests.integration.dashboard.desk import Desk
from tests.integration.store.jobs.work import now, written
from tests.integration.store.locks import OURS, PATIENCE, in_time, vanished
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.databases("postgresql", "mariadb")

ADA, BOB = "ada@x.example", "bob@x.example"
ALL_HELD = Restored(held=2, locked=0)
Locks: TypeAlias = Callable[[Shop], AbstractContextManager[Session]]


@pytest.fixture
def shop(shops: Shops) -> Shop:
    """A shop in which each row that a verb may need is there."""
    shop = shops.open(SECRET_KEY="secret")
    outbox = shop.outbox
    outbox.erase(ADA)
    outbox.suppress(ADA)
    outbox.pause(by="ada")
    written(shop, 1)
    outbox.start_job("retry", status="failed", tag=ADA, by="ada")
    outbox.send_again(1, by="ada", seen=0)
    shop.enqueue(ADA)
    shop.claim()
    with shop.engine.begin() as connection:  # as it was before subjects were indexed
        connection.execute(sa.update(shop.tables.content).values(subject=None))
    return shop


def locked(table: str) -> Locks:
    """Lock all rows of this table."""
    return lambda shop: vanished(shop, getattr(shop.tables, table))


def beside(insert: Callable[[sa.Connection, Database], object]) -> Locks:
    """Insert a row and commit nothing: an INSERT of the same key waits for it."""

    @contextmanager
    def inserted(shop: Shop) -> Iterator[Session]:
        with shop.session() as session:
            assert insert(session.connection(execution_options=OURS), shop.database)
            yield session
            session.rollback()

    return inserted


def indexed(shop: Shop) -> tuple[int, int]:
    return shop.outbox.index(), len(shop.outbox.list(subject="news").emails)


def sent_again(shop: Shop) -> str:
    return shop.status(shop.outbox.send_again(1, by="bob", seen=99).id)


def erased(shop: Shop) -> tuple[int, bool, bool]:
    done = shop.outbox.erase(ADA)
    return done.emails, done.is_whole, done.was_suppressed


VERBS: dict[str, tuple[Locks, Callable[[Shop], Any], Any]] = {
    "send again": (locked("counter"), sent_again, "pending"),
    "erase, suppressed": (locked("suppression"), erased, (1, True, True)),
    "erase, with a job": (locked("job"), erased, (1, True, False)),
    "erase, in the audit": (locked("audit"), erased, (0, True, False)),
    "readmit": (locked("erased"), lambda shop: shop.outbox.readmit(ADA), True),
    "stop a job": (locked("job"), lambda shop: shop.outbox.stop_job(1), True),
    "suppress": (
        beside(lambda c, db: suppression.suppress(c, db, BOB, "elsewhere")),
        lambda shop: shop.outbox.suppress(BOB),
        True,
    ),
    "unsuppress": (locked("suppression"), lambda shop: shop.outbox.unsuppress(ADA), True),
    "pause": (
        beside(lambda c, db: pauses.pause(c, db, Priority.BULK)),
        lambda shop: shop.outbox.pause("bulk"),
        True,
    ),
    "resume": (locked("pause"), lambda shop: shop.outbox.resume(), True),
    "index": (locked("content"), indexed, (0, 2)),
    "restored, with a job": (locked("job"), lambda shop: shop.outbox.restored(), ALL_HELD),
    "restored, with a lease": (locked("lease"), lambda shop: shop.outbox.restored(), ALL_HELD),
}
"""What another transaction has locked, the verb, and what it returns once that has ended."""

FEW = ("send again", "erase, suppressed", "suppress", "resume")
"""Those of `make test`: each waits for seconds."""


@pytest.mark.parametrize(
    "verb", [verb if verb in FEW else pytest.param(verb, marks=pytest.mark.long) for verb in VERBS]
)
def test_a_verb_ends_soon_although_a_row_is_locked_and_does_its_work_later(
    shop: Shop, verb: str
) -> None:
    locks, act, done = VERBS[verb]
    with locks(shop) as session, pytest.raises(RowsLocked):
        in_time(lambda: act(shop), session)
    assert act(shop) == done


LOCK = {
    "postgresql": "LOCK TABLE outbox_suppression IN ACCESS EXCLUSIVE MODE",
    "mariadb": "LOCK TABLES outbox_suppression WRITE",
}


def test_a_verb_ends_soon_although_a_whole_table_is_locked(shop: Shop) -> None:
    with ThreadPoolExecutor(1) as pool, shop.engine.connect() as person:
        person.exec_driver_sql(LOCK[shop.engine.dialect.name])
        done = pool.submit(shop.outbox.suppress, BOB)
        try:
            with pytest.raises(RowsLocked):
                done.result(PATIENCE)
        finally:
            person.invalidate()
    assert shop.outbox.suppress(BOB)


@pytest.mark.long
@pytest.mark.parametrize(
    ("prepare", "act"),
    [
        (Outbox.stats, lambda shop: shop.outbox.cancel_now(3).changed),
        (Outbox.restored, lambda shop: shop.outbox.release(3).emails),
    ],
    ids=["cancel now", "release"],
)
def test_a_verb_passes_over_a_locked_email_and_does_its_work_later(
    shop: Shop, prepare: Callable[[Outbox], object], act: Callable[[Shop], Any]
) -> None:
    prepare(shop.outbox)
    with vanished(shop, shop.tables.email, 3) as session:
        assert not in_time(lambda: act(shop), session)
    assert act(shop)


@pytest.mark.long
def test_a_release_that_passes_over_a_locked_email_says_so_in_the_audit(shop: Shop) -> None:
    shop.outbox.restored()
    with vanished(shop, shop.tables.email, 3) as session:
        assert in_time(lambda: shop.outbox.release(3, by="bob"), session).locked == (3,)
    (entry,) = shop.outbox.audit(email=3)
    assert (entry.action, entry.result) == ("release", "unchanged: another transaction holds it")


@pytest.mark.long
def test_a_locked_job_is_told_in_a_line_with_exit_code_1(shop: Shop) -> None:
    run = runner(shop)
    with vanished(shop, shop.tables.job) as session:
        stop = in_time(lambda: run("job", "stop", 1, code=1), session)
    assert stop.output == (
        "Error: another transaction has locked a row that is needed: try again later\n"
    )
    assert now(shop, shop.outbox.jobs()[0]).state is JobState.RUNNING
    run("job", "stop", 1)
    with vanished(shop, shop.tables.job) as session:
        in_time(lambda: run("job", "resume", 1, code=1), session)
    run("job", "resume", 1)


@pytest.mark.long
def test_the_dashboard_says_that_it_cannot_be_done_now(
    shops: Shops, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "outbox")
    desk = Desk(shops)
    written(desk.shop, 1)
    job = desk.shop.outbox.start_job("retry", status="failed")
    stop = partial(desk.post, f"/jobs/{job.id}/stop", f"/jobs/{job.id}", 503)
    with vanished(desk.shop, desk.shop.tables.job) as session:
        page = in_time(stop, session).text
        assert "That cannot be done now" in page
        assert "What was done before that stays done" in page
    assert "a page of the dashboard met a locked row: outbox_dashboard.job_stop" in caplog.text
    desk.post(f"/jobs/{job.id}/stop", f"/jobs/{job.id}")
    assert now(desk.shop, job).state is JobState.STOPPED


@pytest.mark.long
@pytest.mark.parametrize("act", ["retry", "release"])
def test_the_page_of_a_message_says_that_another_transaction_holds_it(
    shops: Shops, act: str
) -> None:
    desk = Desk(shops)
    (email_id,) = written(desk.shop, 1)
    desk.shop.outbox.cancel_now(email_id, by="ada")
    path = f"/messages/{email_id}"
    with vanished(desk.shop, desk.shop.tables.email) as session:
        page = in_time(lambda: desk.followed(f"{path}/{act}", path), session)
    assert "Another transaction holds the message. Try again in a minute." in page
    assert "too late" not in page
    assert "Before you" not in page


@pytest.mark.databases("mariadb")
@pytest.mark.parametrize("limit", ["innodb_lock_wait_timeout", "lock_wait_timeout"])
def test_a_connection_has_its_own_patience_again(shop: Shop, limit: str) -> None:
    """The app uses it next, and may rely on it."""
    engine = sa.create_engine(shop.engine.url, pool_size=1, max_overflow=0)
    database, asked = Database(engine, shop.tables), f"SELECT @@SESSION.{limit}"

    def patience(connection: sa.Connection) -> int:
        return int(connection.exec_driver_sql(asked).scalar_one())

    before = database.read(patience)
    assert run_bounded(database, patience) == 2
    assert database.read(patience) == before
    with pytest.raises(sa.exc.DBAPIError):
        run_bounded(database, lambda c: c.exec_driver_sql("SELECT nothing"))
    assert database.read(patience) == before > 2
    engine.dispose()


@pytest.mark.databases("mariadb")
@pytest.mark.parametrize("error", [None, SoftTimeLimitExceeded()])
def test_an_error_stays_what_it_is_where_the_connection_is_lost_with_it(
    shop: Shop, error: Exception | None
) -> None:
    """An outage leaves a job running, and any other error stops it until a person has looked."""

    def cut(connection: sa.Connection) -> None:
        own = connection.exec_driver_sql("SELECT CONNECTION_ID()").scalar_one()
        with shop.engine.connect() as other:
            other.exec_driver_sql(f"KILL {own:d}")
        if error is not None:
            raise error
        connection.exec_driver_sql("SELECT 1")

    with pytest.raises(type(error or OperationalError(None, None, OSError()))) as raised:
        run_bounded(shop.database, cut)
    assert is_outage(raised.value) is (error is None)
    assert run_bounded(shop.database, lambda c: c.exec_driver_sql("SELECT 1").scalar()) == 1


@pytest.mark.databases("mariadb")
def test_a_job_whose_connection_is_cut_goes_on(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(connection: sa.Connection, *given: Any, **options: Any) -> bool:
        own = connection.exec_driver_sql("SELECT CONNECTION_ID()").scalar_one()
        with shop.engine.connect() as other:
            other.exec_driver_sql(f"KILL {own:d}")
        return step(connection, *given, **options)

    with monkeypatch.context() as patched:
        patched.setattr(jobs, "step", cut)
        jobs.run_jobs(shop.runtime)
    [job] = shop.outbox.jobs()
    assert job.state is JobState.RUNNING
