"""The horizons of a purge: an email that had finished by its status's horizon is past its time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, or_

from ...domain.config.retention import Retention
from ...domain.delivery.status import Status
from ..connection.database import Database
from ..schema.clock import utc

Horizons: TypeAlias = Mapping[Status, datetime]
"""A moment for each finished status."""


def horizons_of(retention: Retention, now: datetime) -> Horizons:
    """Return the horizons at a moment."""
    return {status: now - timedelta(seconds=age) for status, age in retention.ages.items()}


def is_past(row: Any, horizons: Horizons) -> bool:
    """Whether a row's email is past its time. One that has not finished never is."""
    horizon = horizons.get(row.status)
    return horizon is not None and utc(row.finished_at) <= horizon


def past(database: Database, horizons: Horizons) -> ColumnElement[bool]:
    """Return the condition: the email is past its time."""
    email = database.tables.email.c
    groups: dict[datetime, list[Status]] = defaultdict(list)
    for status, horizon in horizons.items():
        groups[horizon].append(status)
    return or_(
        *(
            email.status.in_(sorted(statuses)) & (email.finished_at <= horizon)
            for horizon, statuses in groups.items()
        )
    )
