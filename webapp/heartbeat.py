"""Touches a file while a worker's loop or beat runs, so that a health check only asks its age.

    find /tmp/heartbeat -mmin -1 | grep -q .

Asking a worker by `celery inspect ping` costs a Celery start each time, and fails when Redis is
slow. The file's name is the environment variable `HEARTBEAT_FILE`; without it nothing is touched.
A worker or a beat that waits for Redis to come back touches nothing either. It goes on by itself.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from celery.signals import heartbeat_sent

from outbox.celery_config import SteadyScheduler

LONGEST = 15.0
"""Seconds between two ticks of beat, at most."""


class BeatScheduler(SteadyScheduler):
    """The outbox's scheduler, which also touches the file at each tick."""

    max_interval = LONGEST

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Touch the file, and tick."""
        touch()
        return super().tick(*args, **kwargs)


def install() -> None:
    """Touch the file at each heartbeat of this process's worker: every two seconds."""
    heartbeat_sent.connect(touch, dispatch_uid="webapp.heartbeat")


def touch(**_: object) -> None:
    """Set the file's time to now."""
    if name := os.environ.get("HEARTBEAT_FILE"):
        Path(name).touch()
