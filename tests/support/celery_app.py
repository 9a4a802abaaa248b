"""The Celery app of a Flask app, as the apps of the tests and of the benchmarks have it."""

from __future__ import annotations

from typing import Any

from celery import Celery
from flask import Flask

try:
    from outbox.celery_config import configure
except ImportError:  # older code, which has all of it in its `celeryconfig`: see `test_upgrade`

    def configure(celery_app: Celery, flask_app: Flask) -> None:
        flask_app.extensions["celery"] = celery_app


def make_celery(app: Flask, broker_url: str, **changes: Any) -> Celery:
    """Put a Celery app into `app.extensions["celery"]`; `changes` are to `celeryconfig`."""
    celery = Celery(app.import_name)
    celery.config_from_object("celeryconfig")
    celery.conf.update(broker_url=broker_url, **changes)
    configure(celery, app)
    return celery
