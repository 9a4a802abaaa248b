"""Celery inside Flask: one Celery app whose tasks run in the Flask app's context."""

from __future__ import annotations

from typing import Any

from celery import Celery, Task
from flask import Flask

from outbox.celery_config import configure


def init_app(app: Flask) -> Celery:
    """Make the Celery app and put it into `app.extensions["celery"]`, as Flask's docs do."""

    class ContextTask(Task):  # type: ignore[misc]
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            with app.app_context():
                return self.run(*args, **kwargs)

    celery = Celery(app.import_name, task_cls=ContextTask)
    celery.config_from_object("celeryconfig")
    celery.set_default()
    configure(celery, app)
    return celery
