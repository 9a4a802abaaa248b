"""The audit: what people did by hand."""

from __future__ import annotations

from sqlalchemy import Column, MetaData, String, Table, Text

from .clock import MOMENT
from .column_types import ID, TABLE_OPTIONS, partial

WHO_LENGTH = 100
ACTION_LENGTH = 20
RESULT_LENGTH = 200
"""The most characters of these columns."""


def audit(metadata: MetaData) -> Table:
    """Return the audit: one row per action of a person. It has no addresses and no contents."""
    table = Table(
        "outbox_audit",
        metadata,
        Column("id", ID, primary_key=True, autoincrement=True),
        Column("at", MOMENT, nullable=False),
        Column("who", String(WHO_LENGTH), nullable=False),
        Column("action", String(ACTION_LENGTH), nullable=False),
        Column("email_id", ID),  # of an action on one email, which may be purged by now
        Column("what", Text, nullable=False),  # JSON: ids, a filter, a scope
        Column("result", String(RESULT_LENGTH), nullable=False),
        sqlite_autoincrement=True,
        **TABLE_OPTIONS,
    )
    partial("ix_outbox_audit_email_id", table.c.email_id, table.c.id, where="email_id IS NOT NULL")
    return table
