"""The table of the fleet: what each worker says of itself."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table, Text, Uuid

from .clock import MOMENT
from .column_types import BOOT_LENGTH, TABLE_OPTIONS

NAME_LENGTH = 255
"""The most characters of a worker's name and of its host's. Longer ones are cut."""
POOL_LENGTH = 50
VERSION_LENGTH = 30


def worker(metadata: MetaData) -> Table:
    """Return the workers: one row per worker, and one per beat, that its parent process renews.

    The rows are few. A worker that starts anew gets a new row.
    """
    return Table(
        "outbox_worker",
        metadata,
        Column("id", Uuid(), primary_key=True),
        Column("name", String(NAME_LENGTH), nullable=False),  # Celery's name of it
        Column("host", String(NAME_LENGTH), nullable=False),
        # Which process it is: together these three never come twice.
        Column("boot", String(BOOT_LENGTH), nullable=False),  # "" where it is not known
        Column("pid", Integer, nullable=False),
        Column("process_start", BigInteger, nullable=False),  # in clock ticks after the boot
        Column("queues", Text, nullable=False),  # separated by spaces
        Column("pool", String(POOL_LENGTH), nullable=False),
        Column("concurrency", Integer, nullable=False),
        Column("slots", Integer, nullable=False),  # its part of the fleet's; 0: it does not send
        Column("tasks", Integer, nullable=False),  # that it ran at its last renewal
        Column("version", String(VERSION_LENGTH), nullable=False),  # of this package
        Column("settings", Text, nullable=False),  # digests in JSON, by the settings' keys
        Column("started_at", MOMENT, nullable=False),
        Column("seen_at", MOMENT, nullable=False),
        Column("stopped_at", MOMENT),  # when it was asked to stop
        **TABLE_OPTIONS,
    )
