"""When an email is due, and when its time has run out: terms of statements."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Column, ColumnElement, Table, func

from .connection.database import Database

HELD = datetime(9000, 1, 1, tzinfo=UTC)
"""The due time of a held email: no claim, no index of what is due, ever comes to it."""


def is_held(email: Table) -> ColumnElement[bool]:
    """Return the condition: the email is held until a person releases it."""
    return email.c.due_at == HELD


def first_due(email: Table) -> ColumnElement[datetime]:
    """Return when an email was first due. With this time a returned email keeps its place."""
    return func.coalesce(email.c.send_at, email.c.created_at)


def may_expire(email: Table) -> ColumnElement[bool]:
    """Return the condition: the email waits, and some day its time runs out.

    It is worded like the partial index, so that the database can use that index.
    """
    waits = email.c.finished_at.is_(None) & email.c.token.is_(None)
    return waits & email.c.expires_at.is_not(None)


def by_expiry(email: Table) -> tuple[Column[Any], Column[Any]]:
    """Return the order of emails that may expire: the whole index, so that nothing is sorted."""
    return email.c.finished_at, email.c.expires_at


def expired(database: Database) -> ColumnElement[bool]:
    """Return the condition: the email waits and its time has run out."""
    email = database.tables.email
    return may_expire(email) & (email.c.expires_at <= database.now())
