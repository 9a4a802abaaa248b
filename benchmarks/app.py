"""The app that is measured: an outbox, a business table, and every setting from one variable.

`celery -A benchmarks.app worker`; the bench itself enqueues through `create_app`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from celery import Celery
from flask import Flask
from flask_mail import Mail
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import Column, Integer, String, Table

from outbox import Outbox
from outbox.celery_config import beat_schedule
from webapp import sqlite

CONFIG = "BENCH_CONFIG"
"""The environment variable with Flask's configuration as JSON."""


@dataclass(frozen=True)
class App:
    """A Flask app and its parts."""

    flask: Flask
    celery: Celery
    db: SQLAlchemy
    outbox: Outbox
    business: Table


def create_app(config: Mapping[str, Any]) -> App:
    """Return an app of its own; `REDIS_URL` in the configuration is Celery's broker."""
    flask = Flask(__name__)
    flask.config.update(config)
    celery = Celery(__name__)
    celery.config_from_object("celeryconfig")
    celery.conf.update(broker_url=config["REDIS_URL"], beat_schedule=beat_schedule(config))
    flask.extensions["celery"] = celery
    Mail(flask)  # its messages ask for it when they are built into MIME
    db, outbox = SQLAlchemy(), Outbox()
    db.init_app(flask)
    with flask.app_context():
        sqlite.configure(db.engine)
    outbox.init_app(flask, db=db)
    business = Table(
        "business",
        db.metadata,
        Column("id", Integer, primary_key=True),
        Column("customer", String(100), nullable=False),
    )
    return App(flask, celery, db, outbox, business)


def __getattr__(name: str) -> Celery:
    """Make `app` when Celery asks for it: importing this module needs no environment."""
    if name in ("app", "celery"):
        app = create_app(json.loads(os.environ[CONFIG]))
        globals()["_kept"] = app  # the tasks find their Flask app through weak references only
        globals()[name] = app.celery
        return app.celery
    raise AttributeError(name)
