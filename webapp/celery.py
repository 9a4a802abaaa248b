"""The Celery app that `celery -A webapp worker | beat | flower` finds."""

from __future__ import annotations

from celery import Celery

from .app import create_app

app: Celery = create_app().extensions["celery"]
