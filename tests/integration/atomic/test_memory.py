"""SQLite in memory has one connection for everybody: the outbox must not end their transactions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from uuid import uuid4

import pytest
import sqlalchemy as sa
from celery import Celery
from sqlalchemy.orm import Session
from sqlalchemy.pool import AssertionPool, SingletonThreadPool, StaticPool

from outbox import ConfigurationError, Status
from outbox.flask_ext.app.state import state_of
from outbox.worker import tasks
from outbox.worker.batch.send_batch import send_batch
from outbox.worker.drain import drain
from outbox.worker.purge import purge_all
from outbox.worker.sweep import sweep
from tests.integration.sessions.outcomes import Broken
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops, message
from tests.support.waiting import wait_until

pytestmark = pytest.mark.databases("sqlite")

POOLS = (SingletonThreadPool, StaticPool, AssertionPool)
"""As SQLAlchemy pools a database in memory, as Flask-SQLAlchemy does, and a stricter one."""


@pytest.fixture(params=POOLS, ids=lambda pool: pool.__name__)
def shop(request: pytest.FixtureRequest, shops: Shops, catcher: Catcher) -> Shop:
    """A shop in memory, whose emails go to the catcher."""
    return open_shop(shops, catcher, request.param)


def open_shop(shops: Shops, catcher: Catcher, pool: type[sa.Pool]) -> Shop:
    engine = sa.create_engine(
        "sqlite://", poolclass=pool, connect_args={"check_same_thread": False}
    )
    return shops.open_on(engine, MAIL_PORT=catcher.port)


def write(shop: Shop, session: Session) -> None:
    """Write an order and its email, and commit neither."""
    shop.order(session, str(uuid4()))
    shop.outbox.enqueue(message(), session=session)


def written(shop: Shop, session: Session) -> list[int]:
    """Return how many orders and emails the session sees."""
    tables = (shop.orders, shop.tables.email)
    found = [session.scalar(sa.select(sa.func.count()).select_from(table)) for table in tables]
    session.rollback()
    return [int(number or 0) for number in found]


USES: dict[str, Callable[[Shop], object]] = {
    "counts": lambda shop: shop.outbox.counts(),
    "get": lambda shop: shop.outbox.get(1),
    "list": lambda shop: shop.outbox.list(),
    "retry": lambda shop: shop.outbox.retry(1),
    "retry by status": lambda shop: shop.outbox.retry(status="failed"),
    "resolve": lambda shop: shop.outbox.resolve(1, "sent"),
    "suppress": lambda shop: shop.outbox.suppress("a@x.example"),
    "unsuppress": lambda shop: shop.outbox.unsuppress("a@x.example"),
    "suppressed": lambda shop: shop.outbox.suppressed(),
    "pause": lambda shop: shop.outbox.pause(),
    "resume": lambda shop: shop.outbox.resume(),
    "stats": lambda shop: shop.outbox.stats(),
    "drain": lambda shop: drain(shop.runtime),
    "sweep": lambda shop: sweep(shop.runtime, lambda _: None),
    "send_batch": lambda shop: send_batch(shop.runtime, uuid4()),
    "purge": lambda shop: list(purge_all(shop.runtime, older_than=0.0)),
    "a read": lambda shop: shop.database.read(lambda connection: None),
    "a transaction": lambda shop: shop.database.run(lambda connection: None),
}

COMMANDS = (
    "stats",
    "list",
    "show 1",
    "retry 1",
    "resolve 1 --as sent",
    "cancel --id 1",
    "cancel --tag news",
    "pause bulk",
    "resume bulk",
    "suppress",
    "suppress a@x.example",
    "sweep",
    "drain",
    "purge",
)


@pytest.mark.matrix
@pytest.mark.parametrize("use", USES)
def test_within_a_transaction_of_the_caller_it_is_refused_and_nothing_of_it_stands(
    shop: Shop, catcher: Catcher, use: str
) -> None:
    with shop.sessions() as session:
        write(shop, session)
        with pytest.raises(ConfigurationError, match="in memory"):
            USES[use](shop)
        session.rollback()
        assert (written(shop, session), catcher.emails) == ([0, 0], ())


@pytest.mark.matrix
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_refused_too(shop: Shop, catcher: Catcher, command: str) -> None:
    with shop.sessions() as session:
        write(shop, session)
        found = shop.app.test_cli_runner().invoke(args=["outbox", *command.split()])
        assert (found.exit_code, "in memory has only one connection" in found.output) == (1, True)
        session.rollback()
        assert (written(shop, session), catcher.emails) == ([0, 0], ())


@pytest.mark.parametrize("command", ["check", "health"])
def test_what_looks_for_faults_tells_of_the_transaction_and_leaves_it(
    shop: Shop, command: str
) -> None:
    with shop.sessions() as session:
        write(shop, session)
        assert "commit it or roll it back" in runner(shop)(command, code=1).output
        session.rollback()
        assert written(shop, session) == [0, 0]


def test_what_was_committed_is_drained_by_whom_the_session_belongs_to(
    shop: Shop, catcher: Catcher
) -> None:
    """Given an app's own tests, which commit and then drain."""
    with shop.sessions() as session:
        for _ in range(2):
            write(shop, session)
            session.commit()
            assert drain(shop.runtime) == 1
        write(shop, session)
        session.rollback()
        assert written(shop, session) == [2, 2]
        assert shop.outbox.counts() == {Status.SENT: 2}
    assert len(catcher.emails) == 2


@pytest.mark.long
@pytest.mark.parametrize("pool", [SingletonThreadPool, StaticPool])
def test_a_session_that_has_only_read_writes_a_transaction_afterwards(
    shops: Shops, catcher: Catcher, pool: type[sa.Pool]
) -> None:
    """The connection is the session's own all the while, and must not stay in autocommit."""
    shop = open_shop(shops, catcher, pool)
    shop.enqueue()
    with shop.sessions() as session:
        assert session.scalars(sa.select(shop.orders.c.id)).all() == []
        assert drain(shop.runtime) == 1
        write(shop, session)
        session.rollback()
        assert written(shop, session) == [0, 1]


@pytest.mark.parametrize("pool", [SingletonThreadPool, StaticPool])
def test_our_own_writes_are_not_taken_for_those_of_a_session_that_reads(
    shops: Shops, catcher: Catcher, pool: type[sa.Pool]
) -> None:
    shop = open_shop(shops, catcher, pool)
    with shop.app.app_context():
        session = state_of().session()
        session.scalar(sa.select(sa.func.count()).select_from(shop.orders))
        assert session.in_transaction()
        assert [shop.outbox.suppress(f"{name}@x.example") for name in "ab"] == [True, True]
        session.rollback()


def test_a_drain_of_another_thread_is_refused_too(shops: Shops, catcher: Catcher) -> None:
    shop = open_shop(shops, catcher, StaticPool)
    refused = list[BaseException]()

    def work() -> None:
        try:
            drain(shop.runtime)
        except ConfigurationError as error:
            refused.append(error)

    with shop.sessions() as session:
        write(shop, session)
        in_thread(work)
        session.rollback()
        assert (written(shop, session), catcher.emails, len(refused)) == ([0, 0], (), 1)


def test_two_transactions_of_ours_take_turns(shops: Shops, catcher: Catcher) -> None:
    """A lease is renewed in a thread of its own: its commit must not be the other one's."""
    shop = open_shop(shops, catcher, StaticPool)
    database, orders = shop.database, shop.orders
    waiting = threading.Event()

    def second() -> None:
        waiting.set()
        database.run(lambda c: c.execute(sa.insert(orders).values(customer="second")))

    thread = threading.Thread(target=second, daemon=True)
    with suppress(Broken), database.transaction() as connection:
        connection.execute(sa.insert(orders).values(customer="first"))
        thread.start()
        assert waiting.wait(30)
        thread.join(0.05)
        assert thread.is_alive()
        raise Broken
    thread.join(30)
    assert [row.customer for row in shop.rows(orders)] == ["second"]


def test_a_task_tells_in_one_line_and_the_next_one_goes_on(
    shops: Shops, catcher: Catcher, caplog: pytest.LogCaptureFixture
) -> None:
    shop = open_shop(shops, catcher, StaticPool)
    celery = Celery("shop", broker="memory://", set_as_current=False)
    shop.app.extensions["celery"] = celery
    shop.enqueue()
    with shop.sessions() as session:
        write(shop, session)
        for task in (tasks.sweep, tasks.purge):
            celery.tasks[task.name].apply(throw=True)
        session.rollback()
        assert written(shop, session) == [0, 1]
    told = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert ["in memory" in record.getMessage() for record in told] == [True, True]
    celery.tasks[tasks.sweep.name].apply(throw=True)
    assert len(catcher.emails) == 1


def test_a_result_waits_for_the_transaction_of_another_thread(
    shops: Shops, catcher: Catcher, caplog: pytest.LogCaptureFixture
) -> None:
    """An email that went out is recorded, though somebody began a transaction meanwhile."""
    shop = open_shop(shops, catcher, StaticPool)
    shop.enqueue()
    gate = catcher.hold_at("reply")
    thread = threading.Thread(target=drain, args=(shop.runtime,), daemon=True)
    thread.start()
    wait_until(lambda: gate.reached == 1, 30, "the email to be sent")
    with shop.sessions() as session:
        shop.order(session)
        gate.open()
        wait_until(lambda: "asked again" in caplog.text, 30, "the record to wait")
        session.rollback()
    thread.join(30)
    assert (shop.statuses(), shop.count(shop.orders)) == (["sent"], 0)
    assert shop.email_row(1).attempts == 1


def test_another_engine_is_not_asked_where_it_is_within_a_transaction(
    shops: Shops, catcher: Catcher
) -> None:
    shop = open_shop(shops, catcher, StaticPool)
    other = sa.create_engine("sqlite://", poolclass=StaticPool)
    with shop.sessions() as session, Session(other) as stranger:
        shop.order(session)
        with pytest.raises(ConfigurationError, match="in memory"):
            shop.outbox.enqueue(message(), session=stranger)
        session.commit()
        with pytest.raises(ConfigurationError, match="another database"):
            shop.outbox.enqueue(message(), session=stranger)
    assert shop.count(shop.orders) == 1
    other.dispose()


def in_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
