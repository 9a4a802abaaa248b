"""Adds our steps to the start of each worker of this process, of whatever Celery app."""

from __future__ import annotations

from typing import Any

from celery.signals import worker_init


def add_to_each_worker(step: type[Any]) -> None:
    """Have each worker that begins from now on run this step of its consumer, too."""

    def add(sender: Any, **_: Any) -> None:
        sender.app.steps["consumer"].add(step)

    worker_init.connect(add, weak=False)
