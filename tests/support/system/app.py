"""The smallest app with an outbox, configured by the environment: what the Celery processes run.

`celery -A tests.support.system.app worker`; the tests themselves use `create_app` as their web
process.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping
from typing import Any

from celery import Celery
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import Column, Integer, String

from outbox import Outbox
from tests.support.celery_app import make_celery

EARLY = 0.1
"""How much of a backoff's jitter is used: who waits for a retry waits three seconds, not thirty."""

db = SQLAlchemy()
outbox = Outbox()


class Order(db.Model):  # type: ignore[name-defined, misc]
    """A business row, to be committed with its email."""

    __tablename__ = "orders"
    id = Column(Integer, primary_key=True)
    customer = Column(String(100), nullable=False)


def create_app(config: Mapping[str, Any]) -> Flask:
    """Return the app; `REDIS_URL` in the configuration is Celery's broker, whichever it is."""
    app = Flask(__name__)
    app.config.update(config)
    make_celery(app, config["REDIS_URL"])
    db.init_app(app)
    outbox.init_app(app, db=db)
    app.extensions["outbox"].runtime.random = lambda: EARLY * random.random()
    if config.get("CREATE_ALL"):  # as many an app factory does
        with app.app_context():
            db.create_all()
    return app


def _hurry(config: Mapping[str, Any]) -> None:
    """Set what has no setting, for the whole process: so only in one of the system's own."""
    if every := config.get("WORKER_BEATS"):
        from outbox.worker.fleet import joining  # an older version, which runs this too, has none

        setattr(joining, "EVERY", every)  # noqa: B010
    if slow := config.get("SLOW_SECONDS"):
        from outbox.smtp import reply_reader
        from outbox.worker.batch import todo

        reply_reader.LOOK, todo.SLOW = slow / 4, slow


def __getattr__(name: str) -> Celery:
    """Make `app` when Celery asks for it: importing this module needs no environment."""
    if name in ("app", "celery"):
        config = json.loads(os.environ["ACCEPTANCE_CONFIG"])
        _hurry(config)
        flask_app = create_app(config)
        celery: Celery = flask_app.extensions["celery"]
        globals()[name] = celery
        return celery
    raise AttributeError(name)
