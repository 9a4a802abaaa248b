"""The shop's own work in a worker: it now and then holds every connection that the engine may open.

The outbox's tasks take turns for theirs, so they alone never find the pool without one.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

from celery import signals
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.exc import SQLAlchemyError

HELD = 1.0
"""Seconds for which it holds them: longer than the outbox waits for one."""

EVERY = 4.0
"""Seconds from one time to the next."""

CONNECTIONS = "SOAK_HOARDED"
"""The key of the configuration that says how many connections it takes; without it, none."""


def when_ready(flask: Flask, db: SQLAlchemy) -> None:
    """Begin once the worker of this app takes tasks, if the app's configuration says so."""
    wanted = flask.config.get(CONNECTIONS)
    if not wanted:
        return

    def begin(**_: object) -> None:
        threading.Thread(target=_hoard, args=(flask, db, wanted), daemon=True).start()

    signals.worker_ready.connect(begin, weak=False)


def _hoard(flask: Flask, db: SQLAlchemy, wanted: int) -> None:
    with flask.app_context():
        engine = db.engine
    while True:
        time.sleep(EVERY)
        with ExitStack() as held:
            try:
                for _ in range(wanted):
                    held.enter_context(engine.connect())
            except SQLAlchemyError:  # the outbox has the others, or the database is away
                pass
            time.sleep(HELD)
