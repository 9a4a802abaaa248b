"""The limits hold over all web processes, and a storage that is away turns no visitor away."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask

from tests.support.servers.brokers.redis import RedisServer
from webapp import limits
from webapp.app import create_app
from webapp.config import from_environment
from webapp.extensions import db

pytestmark = pytest.mark.databases("sqlite")

MOST = int(limits.ORDERS_TO_AN_ADDRESS.split("/")[0])


class Processes:
    """Web processes of one shop. The newest one counts: Flask-Limiter has one storage a process."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self.made: list[Flask] = []

    def start(self) -> Flask:
        config = from_environment(self.environment)
        self.made.append(create_app(config | {"WTF_CSRF_ENABLED": False, "OUTBOX_NUDGE": False}))
        return self.made[-1]

    def end(self) -> None:
        for app in self.made:
            with app.app_context():
                db.engine.dispose()


@pytest.fixture
def processes(tmp_path: Path, redis: RedisServer) -> Iterator[Processes]:
    """Web processes that count in Redis."""
    database = f"sqlite:///{tmp_path / 'shop.db'}"
    made = Processes({"SECRET_KEY": "of a test", "DATABASE_URL": database, "LIMITS_URL": redis.url})
    made.start().test_cli_runner().invoke(args=["init-db"])
    yield made
    made.end()


def orders(app: Flask, count: int) -> list[int]:
    """Order for one address, each time from a new browser; return the answers."""
    form = {"product": "ink", "quantity": "1", "name": "Ada", "email": "ada@example.com"}
    return [
        app.test_client().post("/orders", data=form | {"checkout": str(uuid.uuid4())}).status_code
        for _ in range(count)
    ]


@pytest.mark.long
@pytest.mark.over_and_over
def test_processes_that_share_a_storage_share_the_limits(processes: Processes) -> None:
    assert orders(processes.start(), MOST - 1) == [303] * (MOST - 1)
    assert orders(processes.start(), 2) == [303, 429]


@pytest.mark.long
@pytest.mark.over_and_over
def test_a_storage_that_is_away_turns_no_order_away_and_the_limits_still_hold(
    processes: Processes, redis: RedisServer
) -> None:
    app = processes.start()
    assert orders(app, 1) == [303]
    redis.kill_9()
    assert orders(app, MOST + 1) == [303] * MOST + [429]


@pytest.mark.long
def test_a_storage_that_is_silent_holds_no_order_up(
    processes: Processes, redis: RedisServer
) -> None:
    app = processes.start()
    assert orders(app, 1) == [303]
    redis.freeze()
    assert orders(app, 2) == [303] * 2
    waits = app.config["RATELIMIT_STORAGE_OPTIONS"]
    assert max(waits["socket_timeout"], waits["socket_connect_timeout"]) <= 1


@pytest.mark.long
def test_an_empty_storage_is_none(processes: Processes) -> None:
    processes.environment["LIMITS_URL"] = ""
    app = processes.start()
    assert app.config["RATELIMIT_STORAGE_URI"] == "memory://"
    assert orders(app, 1) == [303]
