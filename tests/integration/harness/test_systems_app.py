"""The app of a whole system changes nothing of the tests' own process, where other tests follow."""

from __future__ import annotations

from outbox.smtp import reply_reader
from outbox.worker.batch import todo
from outbox.worker.fleet import joining
from tests.support.system.app import create_app


def test_what_a_systems_processes_hurry_keeps_its_time_here() -> None:
    def times() -> tuple[float, float, float]:
        return reply_reader.LOOK, todo.SLOW, vars(joining)["EVERY"]

    before = times()
    create_app(
        {
            "SQLALCHEMY_DATABASE_URI": "sqlite://",
            "REDIS_URL": "memory://",
            "WORKER_BEATS": 0.1,
            "SLOW_SECONDS": 0.4,
        }
    )
    assert times() == before
