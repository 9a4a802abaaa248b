"""Nobody who calls a verb waits for long for a row that another transaction holds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from celery.exceptions import SoftTimeLimitExceeded
from sqlalchemy.exc import OperationalError

from outbox import JobState, RowsLocked
from outbox.store.bounded_waits import run_bounded
from outbox.store.connection.database import Database
from outbox.store.connection.error_codes import is_outage
from outbox.store.jobs.step import step
from outbox.worker import jobs
from tests.integration.dashboard.desk import Desk
from tests.integration.store.jobs.work import now, written
from tests.integration.store.outages.locks import in_time
from tests.integration.store.outages.test_locked_shared_rows import vanished
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.databases("postgresql", "mariadb")

ADA = "ada@x.example"


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
    return shop


VERBS: dict[str, tuple[str, Callable[[Shop], Any]]] = {
    "send again": ("counter", lambda shop: shop.outbox.send_again(1, by="bob", seen=99)),
    "erase, suppressed": ("suppression", lambda shop: shop.outbox.erase(ADA)),
    "erase, with a job": ("job", lambda shop: shop.outbox.erase(ADA)),
    "erase, in the audit": ("audit", lambda shop: shop.outbox.erase(ADA)),
    "readmit": ("erased", lambda shop: shop.outbox.readmit(ADA)),
    "stop a job": ("job", lambda shop: shop.outbox.stop_job(1)),
    "unsuppress": ("suppression", lambda shop: shop.outbox.unsuppress(ADA)),
    "resume": ("pause", lambda shop: shop.outbox.resume()),
    "restored, with a job": ("job", lambda shop: shop.outbox.restored()),
    "restored, with a lease": ("lease", lambda shop: shop.outbox.restored()),
}
"""A verb, and the table whose rows are locked."""


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_ends_soon_although_a_row_is_locked_and_does_its_work_later(
    shop: Shop, verb: str
) -> None:
    table, act = VERBS[verb]
    locked = vanished(shop, getattr(shop.tables, table))
    with locked as session, pytest.raises(RowsLocked):
        in_time(lambda: act(shop), session)
    act(shop)


def test_a_locked_job_is_told_in_a_line_with_exit_code_1(shop: Shop) -> None:
    run = runner(shop)
    with vanished(shop, shop.tables.job) as session:
        stop = in_time(lambda: run("job", "stop", 1, code=1), session)
    assert stop.output == (
        "Error: another transaction holds a row that this needs: try again later\n"
    )
    assert now(shop, shop.outbox.jobs()[0]).state is JobState.RUNNING
    run("job", "stop", 1)
    with vanished(shop, shop.tables.job) as session:
        in_time(lambda: run("job", "resume", 1, code=1), session)
    run("job", "resume", 1)


def test_the_dashboard_says_that_it_cannot_be_done_now(shops: Shops) -> None:
    desk = Desk(shops)
    written(desk.shop, 1)
    job = desk.shop.outbox.start_job("retry", status="failed")
    stop = partial(desk.post, f"/jobs/{job.id}/stop", f"/jobs/{job.id}", 503)
    with vanished(desk.shop, desk.shop.tables.job) as session:
        assert "That cannot be done now" in in_time(stop, session).text
    desk.post(f"/jobs/{job.id}/stop", f"/jobs/{job.id}")
    assert now(desk.shop, job).state is JobState.STOPPED


@pytest.mark.databases("mariadb")
def test_a_connection_has_its_own_patience_again(shop: Shop) -> None:
    """The app uses it next, and may rely on it."""
    engine = sa.create_engine(shop.engine.url, pool_size=1, max_overflow=0)
    database, asked = Database(engine, shop.tables), "SELECT @@SESSION.innodb_lock_wait_timeout"

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
