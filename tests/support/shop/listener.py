"""A Celery app without queues of its own: its worker listens to what -Q says.

It has no Flask app for which the outbox's tasks could work, and may not even know these tasks.
"""

from __future__ import annotations

import os
from importlib import import_module

from celery import Celery

BROKER = "LISTENER_BROKER"
STRANGER = "LISTENER_IS_A_STRANGER"

if STRANGER not in os.environ:
    import_module("outbox")  # which registers its tasks
app = Celery("listener", broker=os.environ.get(BROKER))
