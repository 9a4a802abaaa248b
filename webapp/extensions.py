"""The Flask extensions, one of each, bound to an app by `create_app`."""

from __future__ import annotations

import os
from pathlib import Path

from flask_migrate import Migrate
from flask_sqlalchemy import SQLAlchemy
from flask_wtf import CSRFProtect
from sqlalchemy.orm import DeclarativeBase

from outbox import Outbox
from outbox.dashboard import Dashboard
from outbox.metrics import Metrics

from .staff import access, may_scrape


class Base(DeclarativeBase):
    """The declarative base of the shop's rows; the outbox's tables join its metadata."""


def _migrations() -> str:
    """Return the folder of the migrations.

    Alembic's parser reads a `%` in its path as the begin of a variable. As seen from the folder of
    the process the path has none, unless it is started elsewhere.
    """
    folder = Path(__file__).with_name("migrations")
    return os.path.relpath(folder) if "%" in str(folder) else str(folder)


db = SQLAlchemy(model_class=Base)
migrate = Migrate(directory=_migrations())
csrf = CSRFProtect()
outbox = Outbox()
dashboard = Dashboard(access=access)
metrics = Metrics(access=may_scrape)
