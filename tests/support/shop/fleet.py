"""A Celery app that nobody runs, and rows of workers as they would have written them."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid4

from celery import Celery

from outbox.domain.config.agreement import setting_digests
from outbox.domain.version import __version__
from outbox.store.control import fleet
from outbox.worker.broker.queues import QUEUES, beat_schedule
from outbox.worker.fleet.inquiry import OURS
from outbox.worker.process.runtime import Runtime
from tests.support.shop.shop import Shop


def celery(url: str = "redis://127.0.0.1:1/0", **config: object) -> Celery:
    """Return an app with our queues and beat's tasks."""
    app = Celery("shop", broker=url, set_as_current=False)
    app.conf.update({"beat_schedule": beat_schedule(), "task_queues": QUEUES} | config)
    return app


def row(name: str = "celery@far", **values: Any) -> dict[str, Any]:
    """Return the row of a worker on another host, which listens to all of our queues."""
    return {
        "name": name,
        "host": "far",
        "boot": "",
        "pid": 7,
        "process_start": 0,
        "queues": " ".join(OURS),
        "pool": "prefork",
        "concurrency": 2,
        "slots": 2,
        "tasks": 0,
        "version": __version__,
        "settings": "{}",
        **values,
    }


def settings_of(runtime: Runtime) -> str:
    """Return what a worker writes of its settings."""
    found = setting_digests(runtime.settings, runtime.servers, suppressed=runtime.sending_is_off())
    return json.dumps(found)


def entered(runtime: Runtime, values: dict[str, Any]) -> UUID:
    """Write a worker's row; return its id."""
    worker, database = uuid4(), runtime.database
    database.run(lambda c: fleet.enter(c, database, worker, values))
    return worker


def written(shop: Shop, values: dict[str, Any]) -> UUID:
    """Write a worker's row into a shop's database; return its id."""
    return entered(shop.runtime, values)
