"""The instance's table: one row, which says where and under which name this outbox sends."""

from __future__ import annotations

from sqlalchemy import Column, MetaData, SmallInteger, String, Table

from ...domain.instance import MAX_INSTANCE
from .clock import MOMENT
from .column_types import EMPTY, TABLE_OPTIONS


def instance(metadata: MetaData) -> Table:
    """Return the instance's table. A copy of the tables has the row too, and so it is found out."""
    return Table(
        "outbox_instance",
        metadata,
        Column("id", SmallInteger, primary_key=True, autoincrement=False),  # 1
        Column("instance", String(36), nullable=False),  # a UUID
        Column("name", String(MAX_INSTANCE), nullable=False, server_default=EMPTY),
        # What the database said of itself; "" where it does not tell.
        Column("cluster", String(64), nullable=False, server_default=EMPTY),
        Column("timeline", String(64), nullable=False, server_default=EMPTY),
        Column("home", String(200), nullable=False, server_default=EMPTY),
        Column("made_at", MOMENT, nullable=False),
        Column("seen_at", MOMENT, nullable=False),  # when a process last checked it, by the minute
        Column("holding_at", MOMENT),  # while `restored` is under way
        Column("held_at", MOMENT),  # when emails were last held; null once all are released
        **TABLE_OPTIONS,
    )
