"""An app that had a Celery app, with settings of its own, before it got an outbox.

`celery -A tests.support.system.existing worker`: its own task goes on as before, and emails are
sent. The settings are as unfriendly to the outbox's tasks as they may be.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from celery import Celery, Task
from flask import Flask
from kombu import entity

from outbox import celery_config
from tests.support.system.app import db, outbox

Queue: Any = entity.Queue

MARK = "EXISTING_MARK"
"""The environment variable with the file in which the app's own task says what it is."""

WAY = "EXISTING_WAY"
"""The environment variable that says how the outbox is added."""


class Own(Task):  # type: ignore[misc]
    """The app's own base of its tasks. It is for tasks that do not send email."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.name.startswith("outbox."):
            raise RuntimeError("a base of other tasks")
        return self.run(*args, **kwargs)


def report(self: Any) -> None:
    """Tell which options this task has."""
    # Its own result goes to the backend, a file.
    found = {name: getattr(self, name) for name in ("acks_late", "time_limit", "serializer")}
    found["queue"] = self.request.delivery_info["routing_key"]
    Path(os.environ[MARK]).write_text(json.dumps(found))


SETTINGS: dict[str, Any] = {
    "broker_connection_retry_on_startup": True,
    "task_default_queue": "reports",
    "task_create_missing_queues": False,
    "task_serializer": "pickle",
    "accept_content": ["pickle"],
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    "task_time_limit": 300.0,
    "task_default_rate_limit": "2/m",
    "task_annotations": {"report": {"rate_limit": None}},
    "task_routes": {"outbox.*": {"exchange": "lost", "routing_key": "lost", "queue": "reports"}},
    "task_default_exchange_type": "topic",
    "beat_schedule": {"report": {"task": "report", "schedule": 1.0}},
    "timezone": "Europe/Berlin",
    "enable_utc": False,
}


def _configured(celery: Celery, flask: Flask) -> None:
    celery_config.configure(celery, flask)
    celery.config_from_object(SETTINGS)


def _one_by_one(celery: Celery, flask: Flask) -> None:
    class Module:  # as a `celeryconfig.py` would have it
        task_queues = celery_config.queues(Queue("reports", routing_key="reports"))
        beat_schedule = SETTINGS["beat_schedule"] | celery_config.beat_schedule(flask.config)
        beat_scheduler = "outbox.celery_config:SteadyScheduler"
        accept_content = ("pickle", "json")

    for name, value in SETTINGS.items():
        if not hasattr(Module, name):
            setattr(Module, name, value)
    flask.extensions["celery"] = celery
    celery.config_from_object(Module)


WAYS = {"configure": _configured, "settings": _one_by_one}


def _make() -> Celery:
    config = json.loads(os.environ["ACCEPTANCE_CONFIG"])
    celery = Celery("existing", broker=config["REDIS_URL"], task_cls=Own)
    celery.conf.result_backend = f"file://{Path(os.environ[MARK]).parent}"
    celery.task(name="report", bind=True, shared=False)(report)
    flask = Flask("existing")
    flask.config.update(config)
    WAYS[os.environ[WAY]](celery, flask)
    db.init_app(flask)
    outbox.init_app(flask, db=db)
    globals()["_flask"] = flask  # `configure` would keep it
    return celery


def __getattr__(name: str) -> Celery:
    """Make `app` when Celery asks for it: importing this module needs no environment."""
    if name in ("app", "celery"):
        celery = globals()[name] = _make()
        return celery
    raise AttributeError(name)
