"""The audit: what people did by hand; and the jobs that they started."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Integer, MetaData, String, Table, Text

from ...domain.config.encryption_keys import MAX_KEY_ID
from .clock import MOMENT
from .column_types import BLOB, EMPTY, ID, TABLE_OPTIONS, partial

WHO_LENGTH = 100
ACTION_LENGTH = 20
RESULT_LENGTH = 200
"""The most characters of these columns."""

PLACE_LENGTH = 40


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


def job(metadata: MetaData) -> Table:
    """Return the jobs: one row per action on all emails that a filter finds.

    The table is small, because the purge removes old jobs. So it has no index but its key.
    """
    return Table(
        "outbox_job",
        metadata,
        Column("id", ID, primary_key=True, autoincrement=True),
        Column("action", String(ACTION_LENGTH), nullable=False),
        Column("filters", Text, nullable=False),  # JSON; null stands for a filter that is `sealed`
        Column("sealed", BLOB),  # JSON: filters that may name a person; null once the job is done
        Column("key_id", String(MAX_KEY_ID)),  # of the encryption key; null: `sealed` is in clear
        Column("who", String(WHO_LENGTH)),
        Column("state", String(10), nullable=False),
        Column("reason", String(RESULT_LENGTH), nullable=False, server_default=EMPTY),
        # Places in the list of emails, which the job goes through from the newest to the oldest.
        Column("upto", String(PLACE_LENGTH), nullable=False),  # it touches only older emails
        Column("place", String(PLACE_LENGTH), nullable=False),  # how far it has come: the cursor
        Column("first_place", String(PLACE_LENGTH)),  # the two ends, by which the share is told
        Column("last_place", String(PLACE_LENGTH)),
        Column("held", Text, nullable=False),  # JSON: ids that were locked, to be tried once more
        Column("found", Integer, nullable=False),  # counted before its start
        Column("more", Boolean, nullable=False),  # whether there may be more than were counted
        Column("changed", Integer, nullable=False, default=0, server_default="0"),
        Column("unchanged", Integer, nullable=False, default=0, server_default="0"),
        Column("created_at", MOMENT, nullable=False),
        Column("updated_at", MOMENT, nullable=False),
        Column("finished_at", MOMENT),
        sqlite_autoincrement=True,
        **TABLE_OPTIONS,
    )
