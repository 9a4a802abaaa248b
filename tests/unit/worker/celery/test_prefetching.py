"""The option that keeps a worker from fetching too much is one that this Celery has."""

from __future__ import annotations

from typing import Any

import pytest
from celery import VERSION, Celery
from celery.app import defaults
from celery.bin.worker import worker

from outbox.worker.fleet import inquiry, prefetching
from outbox.worker.fleet.prefetching import DISABLE, MULTIPLIER

REDIS, RABBIT = "redis://127.0.0.1:1/0", "amqp://127.0.0.1:1//"


def app_with(url: str, **settings: Any) -> Celery:
    app = Celery("shop", broker=url, set_as_current=False)
    app.conf.update(settings)
    return app


@pytest.mark.parametrize("url", [REDIS, RABBIT])
def test_the_option_is_one_of_this_celerys_worker(url: str) -> None:
    known = {name for one in worker.params for name in one.opts}
    assert prefetching.option(app_with(url)).split()[0] in known


def test_with_redis_nothing_is_fetched_ahead_since_celery_5_6() -> None:
    disabled = prefetching.option(app_with(REDIS)) == "--disable-prefetch"
    assert disabled is (VERSION[:2] >= (5, 6))
    assert prefetching.option(app_with(RABBIT)) == "--prefetch-multiplier 1"


def test_an_older_celery_fetches_less(monkeypatch: pytest.MonkeyPatch) -> None:
    older = {key: one for key, one in defaults.DEFAULTS.items() if key != DISABLE}
    monkeypatch.setattr(prefetching, "DEFAULTS", older)
    app = app_with(REDIS, **{DISABLE: True})
    assert prefetching.option(app) == "--prefetch-multiplier 1"
    assert prefetching.unset(app) == "worker_prefetch_multiplier is not 1"
    assert not prefetching.unset(app_with(REDIS, **{MULTIPLIER: 1}))
    assert inquiry._prefetch(app, {DISABLE: True}, {"prefetch_count": 16}) == 16
