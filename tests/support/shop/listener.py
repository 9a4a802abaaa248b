"""A Celery app without tasks and queues of its own: its worker listens to what -Q says."""

from __future__ import annotations

import os

from celery import Celery

BROKER = "LISTENER_BROKER"

app = Celery("listener", broker=os.environ.get(BROKER))
