"""Places in a Flask app from which people write: each runs a body there, in its own context."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import gevent
from apscheduler.schedulers.background import BackgroundScheduler
from celery import Celery
from flask import Flask, Response, stream_with_context

from tests.integration.sessions.outcomes import Broken
from tests.support.waiting import wait_until

Body = Callable[[], None]


@dataclass(frozen=True)
class Place:
    """One place. What `Broken` becomes there is the place's own matter."""

    name: str
    run: Callable[[Flask, Body], None]


def view(app: Flask, body: Body) -> None:
    @app.post("/order")
    def order() -> str:
        body()
        return "done"

    app.test_client().post("/order")


def async_view(app: Flask, body: Body) -> None:
    @app.post("/order")
    async def order() -> str:
        body()
        return "done"

    app.test_client().post("/order")


def streamed_answer(app: Flask, body: Body) -> None:
    @app.post("/order")
    def order() -> Response:
        def generate() -> Iterator[str]:
            body()
            yield "done"

        return Response(stream_with_context(generate()))

    with suppress(Broken):
        app.test_client().post("/order").get_data()


def command(app: Flask, body: Body) -> None:
    app.cli.command("order")(body)
    app.test_cli_runner().invoke(args=["order"])


def celery_task(app: Flask, body: Body) -> None:
    _task(app, body).apply()


def eager_task(app: Flask, body: Body) -> None:
    """It is called in a view, and has a context of its own there."""
    task = _task(app, body)

    @app.post("/order")
    def order() -> str:
        task.delay()
        return "done"

    app.test_client().post("/order")


def _task(app: Flask, body: Body) -> Any:
    celery = Celery("shop", task_cls=None)
    celery.conf.update(task_always_eager=True)

    @celery.task(name="order", shared=False)  # each Celery app of the process would have it
    def order() -> None:
        with app.app_context():
            body()

    return order


def scheduled_job(app: Flask, body: Body) -> None:
    done = threading.Event()

    def job() -> None:
        try:
            with suppress(Broken), app.app_context():
                body()
        finally:
            done.set()

    scheduler = BackgroundScheduler()
    scheduler.start()
    scheduler.add_job(job)
    assert done.wait(30)
    # A job that has run is removed by its thread: shutdown() must not come first.
    wait_until(lambda: not scheduler.get_jobs(), 30, "the job to be removed")
    scheduler.shutdown()


def thread_with_a_copied_context(app: Flask, body: Body) -> None:
    def run() -> None:
        with suppress(Broken):
            body()

    with app.app_context():
        thread = threading.Thread(target=contextvars.copy_context().run, args=(run,))
        thread.start()
        thread.join(30)


def greenlet(app: Flask, body: Body) -> None:
    def run() -> None:
        with suppress(Broken), app.app_context():
            body()

    gevent.spawn(run).get(timeout=30)


PLACES = (
    Place("a view", view),
    Place("an async view", async_view),
    Place("a streamed answer", streamed_answer),
    Place("a command", command),
    Place("a Celery task", celery_task),
    Place("an eager task in a view", eager_task),
    Place("a scheduled job", scheduled_job),
    Place("a thread with a copied context", thread_with_a_copied_context),
    Place("a greenlet", greenlet),
)
