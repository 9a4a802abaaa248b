"""Without the outbox's tables each command, and each task, names the remedy in one line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from typing import Any

import pytest
import sqlalchemy as sa
from celery import Celery, Task
from flask import Flask
from sqlalchemy.orm import Session

from outbox import ConfigurationError, Outbox
from outbox.flask_ext.app.state import state_of
from outbox.worker import tasks
from tests.support.shop.shell import parsed
from tests.support.shop.shop import addresses, message, newsletter

pytestmark = pytest.mark.each_database

REMEDY = "tables are missing: run your migrations (flask db migrate, then flask db upgrade)"


@pytest.fixture
def engine(database_url: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def outbox() -> Outbox:
    return Outbox()


@pytest.fixture(autouse=True)
def app(engine: sa.Engine, outbox: Outbox) -> Flask:
    """An app whose database has no tables yet."""
    app = Flask("shop")
    app.extensions["celery"] = Celery("shop", set_as_current=False)
    outbox.init_app(app, metadata=sa.MetaData(), engine=engine)
    return app


def outbox_tables(outbox: Outbox) -> sa.MetaData:
    return state_of(outbox._app).runtime.tables.email.metadata


def orders_of(session: Session) -> Iterator[EmailMessage]:
    for _ in session.execute(sa.text("SELECT * FROM orders")):
        yield message()


@pytest.mark.long
def test_check_and_health_name_them_until_they_are_there(app: Flask, engine: sa.Engine) -> None:
    run = app.test_cli_runner().invoke
    found = run(args=["outbox", "check"])
    lines = [line for line in found.output.splitlines() if line.startswith("error  schema")]
    assert found.exit_code == 1
    assert len(lines) == 1
    assert REMEDY in lines[0]
    assert "the database:" not in found.output
    found = run(args=["outbox", "health"])
    assert (found.exit_code, REMEDY in found.output) == (1, True)
    figures = parsed(run(args=["outbox", "health", "--json"]))
    assert (figures["healthy"], len(figures["problems"])) == (False, 1)
    metadata: sa.MetaData = app.extensions["outbox"].runtime.tables.email.metadata
    metadata.create_all(engine)
    assert run(args=["outbox", "health"]).exit_code == 0


@pytest.mark.matrix
@pytest.mark.parametrize(
    "command",
    [
        "stats",
        "stats --json",
        "list",
        "show 1",
        "retry 1",
        "resolve 1 --as sent",
        "cancel --tag news",
        "purge",
        "suppress a@example.com",
        "pause",
        "sweep",
        "drain",
        "restored",
        "moved",
        "held",
        "release --all",
    ],
)
def test_each_command_ends_with_the_remedy(app: Flask, command: str) -> None:
    found = app.test_cli_runner().invoke(args=["outbox", *command.split()])
    assert found.exit_code == 1
    assert isinstance(found.exception, SystemExit)
    last = found.output.splitlines()[-1]
    assert last.startswith("Error: ")
    assert REMEDY in last


VERBS: dict[str, Callable[[Outbox], object]] = {
    "stats": lambda outbox: outbox.stats(),
    "list": lambda outbox: outbox.list(),
    "get": lambda outbox: outbox.get(1),
    "counts": lambda outbox: outbox.counts(),
    "retry": lambda outbox: outbox.retry(1),
    "resolve": lambda outbox: outbox.resolve(1, "sent"),
    "suppressed": lambda outbox: outbox.suppressed(),
    "suppress": lambda outbox: outbox.suppress("a@x.example"),
    "pause": lambda outbox: outbox.pause(),
    "resume": lambda outbox: outbox.resume(),
    "restored": lambda outbox: outbox.restored(),
    "moved": lambda outbox: outbox.moved(),
    "held": lambda outbox: outbox.held(),
    "release": lambda outbox: outbox.release(everything=True),
}


@pytest.mark.matrix
@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_raises_the_remedy(app: Flask, outbox: Outbox, verb: str) -> None:
    with app.app_context(), pytest.raises(ConfigurationError, match=re.escape(REMEDY)):
        VERBS[verb](outbox)


def test_each_write_in_ones_own_transaction_raises_the_remedy(
    app: Flask, outbox: Outbox, engine: sa.Engine
) -> None:
    writes: list[Callable[[Session], object]] = [
        lambda session: outbox.enqueue(message(), session=session),
        lambda session: outbox.enqueue(message(), session=session, key="order-1"),
        lambda session: outbox.enqueue_many(newsletter(), addresses(2), session=session),
        lambda session: outbox.enqueue_many([message(), message()], session=session),
        lambda session: outbox.cancel(tag="news", session=session),
    ]
    for write in writes:
        with Session(engine) as session, pytest.raises(ConfigurationError, match=REMEDY[:40]):
            write(session)


def test_an_older_versions_tables_are_told_as_such(
    app: Flask, outbox: Outbox, engine: sa.Engine
) -> None:
    outbox_tables(outbox).create_all(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE outbox_email RENAME COLUMN sender TO author")
    found = app.test_cli_runner().invoke(args=["outbox", "show", "1"])
    assert (found.exit_code, "lack a column that this version needs" in found.output) == (1, True)
    with Session(engine) as session, pytest.raises(ConfigurationError, match="lack a column"):
        outbox.enqueue(message(), session=session)


def test_a_missing_table_of_the_app_is_not_told_as_the_outboxs(
    outbox: Outbox, engine: sa.Engine
) -> None:
    outbox_tables(outbox).create_all(engine)
    with Session(engine) as session, pytest.raises(sa.exc.DBAPIError, match="orders"):
        outbox.enqueue_many(orders_of(session), session=session)


@pytest.mark.parametrize("task", [tasks.sweep, tasks.purge])
def test_a_task_fails_with_the_remedy(app: Flask, task: Task[Any, Any]) -> None:
    celery: Celery = app.extensions["celery"]
    with pytest.raises(ConfigurationError, match=re.escape(REMEDY)):
        celery.tasks[task.name].run()
