"""A Celery app without queues of its own: its worker listens to what -Q says.

Its Flask app has an outbox in memory. It may have none, and may not even know the outbox's tasks.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import sqlalchemy as sa
from celery import Celery
from flask import Flask

BROKER = "LISTENER_BROKER"
STRANGER = "LISTENER_IS_A_STRANGER"

ALONE = "LISTENER_HAS_NO_FLASK_APP"

app = Celery("listener", broker=os.environ.get(BROKER))
if STRANGER not in os.environ:
    outbox: Any = import_module("outbox")  # which registers its tasks
    if ALONE not in os.environ:
        flask_app = Flask("listener")
        engine = sa.create_engine("sqlite://")
        outbox.Outbox().init_app(flask_app, metadata=sa.MetaData(), engine=engine)
        flask_app.extensions["celery"] = app
