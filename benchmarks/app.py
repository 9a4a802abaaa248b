"""The app that is measured: an outbox and a business table, with all settings from one variable.

`celery -A benchmarks.app worker` starts its workers. The bench itself enqueues through
`create_app`.
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

from benchmarks.instruments.removal import WITHOUT, remove
from outbox import Outbox
from tests.support.celery_app import make_celery
from webapp import sqlite

CONFIG = "BENCH_CONFIG"
"""The name of the environment variable that has Flask's configuration as JSON."""


@dataclass(frozen=True)
class App:
    """A Flask app and its parts."""

    flask: Flask
    celery: Celery
    db: SQLAlchemy
    outbox: Outbox
    business: Table


def create_app(config: Mapping[str, Any]) -> App:
    """Return a new app; `REDIS_URL` in the configuration is Celery's broker."""
    flask = Flask(__name__)
    flask.config.update(config)
    celery = make_celery(flask, config["REDIS_URL"])
    Mail(flask)  # Flask-Mail's messages need it when they are rendered to MIME
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
    """Make `app` when Celery asks for it, so that an import alone needs no environment."""
    if name in ("app", "celery"):
        config = json.loads(os.environ[CONFIG])
        remove(config.get(WITHOUT, ()))
        app = create_app(config)
        globals()[name] = app.celery
        return app.celery
    raise AttributeError(name)
