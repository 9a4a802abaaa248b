"""The app whose worker the fuzzer writes to: the acceptance tests' own, with one task more.

`celery -A tests.fuzz.worker worker`; the task tells that all before it in its queue is over.
"""

from __future__ import annotations

from typing import Any

import redis
from celery import Celery

from tests.support.system import app as acceptance

ECHO = "fuzz.echo"


def __getattr__(name: str) -> Celery:
    """Make `app` when Celery asks for it, as the acceptance tests' module does."""
    if name not in ("app", "celery"):
        raise AttributeError(name)
    celery: Any = acceptance.app
    broker = redis.Redis.from_url(celery.conf.broker_url)

    @celery.task(name=ECHO, ignore_result=True)
    def echo(mark: str) -> None:
        broker.rpush(ECHO, mark)

    globals()["app"] = globals()["celery"] = celery
    return celery
