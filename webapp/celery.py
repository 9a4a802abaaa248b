"""The Celery app that `celery -A webapp worker | beat | flower` finds."""

from __future__ import annotations

from celery import Celery

from . import heartbeat
from .app import create_app

app: Celery = create_app().extensions["celery"]
heartbeat.install()
