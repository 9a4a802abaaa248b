"""The shop of a Celery worker that dies at one point, as it is told to.

`celery -A tests.kill.stage.celery_app worker` runs it.

Its whole process group is killed with SIGKILL, the parent and the pool's child that came there.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable

from celery import Celery

from tests.kill.stage.shop import Shop, build, stop_clock
from tests.kill.stage.tracer import Point, Tracer


def __getattr__(name: str) -> Celery:
    """Make `app` when Celery asks for it: importing this module needs no environment."""
    if name in ("app", "celery"):
        shop = _make()
        # Nothing else holds the Flask app, and the tasks look for it.
        globals().update(shop=shop, app=shop.celery, celery=shop.celery)
        return shop.celery
    raise AttributeError(name)


def _make() -> Shop:
    config = json.loads(os.environ["KILL_CONFIG"])
    left = int(os.environ["KILL_AT"])
    shop = build(config)
    shop.runtime.random = lambda: 0.5
    stop_clock(shop.runtime)
    _keep_slots(shop)
    parent = os.getpid()

    def tell(point: Point) -> None:
        nonlocal left
        if os.getpid() == parent:
            return  # it writes its own row, and sends nothing
        left -= str(point) == os.environ["KILL_POINT"]
        if left == 0:
            os.killpg(0, signal.SIGKILL)

    Tracer(tell=tell, engine=shop.engine, smtp_port=config["MAIL_PORT"]).install()
    return shop


def _keep_slots(shop: Shop) -> None:
    """Have a sweep plan for as many slots as the recorded one did.

    The rows of the workers that were killed before count for a while, so their number depends on
    the time.
    """
    most = shop.runtime.settings.slots
    assert most is not None
    shop.runtime.slots.share(most)
    nothing: dict[str, Callable[[int], None]] = dict.fromkeys(("share", "tell"), lambda _: None)
    vars(shop.runtime.slots).update(nothing)
