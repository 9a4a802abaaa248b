"""Without the outbox's tables each command, and each task, names the remedy in one line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from celery import Celery, Task
from flask import Flask

from outbox import ConfigurationError, Outbox
from outbox.worker import tasks
from tests.support.shop.shell import parsed

pytestmark = pytest.mark.each_database

REMEDY = "tables are missing: run your migrations (flask db migrate, then flask db upgrade)"


@pytest.fixture
def engine(database_url: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def app(engine: sa.Engine) -> Flask:
    """An app whose database has no tables yet."""
    app = Flask("shop")
    app.extensions["celery"] = Celery("shop", set_as_current=False)
    Outbox().init_app(app, metadata=sa.MetaData(), engine=engine)
    return app


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
    ],
)
def test_each_command_ends_with_the_remedy(app: Flask, command: str) -> None:
    found = app.test_cli_runner().invoke(args=["outbox", *command.split()])
    assert found.exit_code == 1
    assert isinstance(found.exception, SystemExit)
    last = found.output.splitlines()[-1]
    assert last.startswith("Error: ")
    assert REMEDY in last


@pytest.mark.parametrize("task", [tasks.sweep, tasks.purge])
def test_a_task_fails_with_the_remedy(app: Flask, task: Task[Any, Any]) -> None:
    celery: Celery = app.extensions["celery"]
    with pytest.raises(ConfigurationError, match=re.escape(REMEDY)):
        celery.tasks[task.name].run()
