"""The retention's tables: how far the purge has come, and what it must look at again."""

from __future__ import annotations

from sqlalchemy import Column, Index, MetaData, SmallInteger, String, Table, Uuid

from ...domain.delivery.status import Status
from .clock import MOMENT
from .column_types import ID, TABLE_OPTIONS


def purge(metadata: MetaData) -> Table:
    """Return the purge's marks: one row with its progress and the lease of the running purge."""
    return Table(
        "outbox_purge",
        metadata,
        Column("id", SmallInteger, primary_key=True, autoincrement=False),
        Column("walked", ID, nullable=False),  # the purge has passed the ids up to this one
        Column("searched", ID, nullable=False),  # and has searched these for emails it missed
        Column("token", Uuid()),
        Column("expires_at", MOMENT),
        # The same two for the walk that removes bodies.
        Column("bodies_walked", ID, nullable=False, default=0, server_default="0"),
        Column("bodies_searched", ID, nullable=False, default=0, server_default="0"),
        # The empty content of emails that shared theirs. There is no foreign key: it may be gone.
        Column("empty_content_id", ID),
        **TABLE_OPTIONS,
    )


def straggler(metadata: MetaData) -> Table:
    """Return the stragglers: emails that the purge has passed and could not remove yet."""
    return _stragglers(metadata, "outbox_straggler")


def body_straggler(metadata: MetaData) -> Table:
    """Return the stragglers among the emails whose bodies are to go."""
    return _stragglers(metadata, "outbox_body_straggler")


def _stragglers(metadata: MetaData, name: str) -> Table:
    """Return a table of stragglers. There is no foreign key, because these emails may be gone."""
    table = Table(
        name,
        metadata,
        Column("email_id", ID, primary_key=True, autoincrement=False),
        Column("since", MOMENT, nullable=False),  # when it finished, or else was last seen
        # How it finished; pending stands for every email that has not.
        Column("status", String(10), nullable=False, server_default=Status.PENDING.value),
        **TABLE_OPTIONS,
    )
    columns = table.c
    Index(f"ix_{name}_since", columns.status, columns.since, columns.email_id)
    return table
