"""The control tables: leases, breakers, servers, buckets, pauses, suppression, counters."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Uuid,
)

from ...domain.delivery.refusal_fingerprint import REFUSAL_LENGTH
from ...domain.header.address import MAX_ADDRESS
from ...domain.scheduling.lanes import MAX_BUCKET
from .clock import MOMENT
from .column_types import (
    BOOT_LENGTH,
    EMPTY,
    ID,
    LANE,
    REASON_LENGTH,
    REPLY_LENGTH,
    SERVER_LENGTH,
    TABLE_OPTIONS,
    WORKER_LENGTH,
)
from .version import mark


def lease(metadata: MetaData) -> Table:
    """Return the leases: one row per claim, so that renewing is a small write without an email."""
    return Table(
        "outbox_lease",
        metadata,
        Column("token", Uuid(), primary_key=True),
        Column("priority", SmallInteger, nullable=False),
        Column("lane", LANE, nullable=False, server_default=EMPTY),
        Column("emails", Integer, nullable=False, server_default="0"),  # how many were claimed
        Column("claimed_at", MOMENT, nullable=False),
        Column("expires_at", MOMENT, nullable=False),
        Column("started_at", MOMENT),
        Column("suspected_at", MOMENT),
        Column("worker", String(WORKER_LENGTH)),
        # Which process started it, as in the table of the workers; null where it is not known.
        Column("boot", String(BOOT_LENGTH)),
        Column("pid", Integer),
        Column("process_start", BigInteger),
        Column("server", String(SERVER_LENGTH)),  # it counts against this server's connection cap
        # Its batch has ended, but for the reply to a content: it takes no slot.
        Column("awaits_reply", Boolean, nullable=False, default=False, server_default="0"),
        **TABLE_OPTIONS,
    )


def breaker(metadata: MetaData) -> Table:
    """Return the breakers: one row per server that is suspected or halted, none per usable one."""
    return Table(
        "outbox_breaker",
        metadata,
        Column("server", String(SERVER_LENGTH), primary_key=True),
        # The defaults are for an older worker beside this one: it only knows open breakers.
        Column("state", String(10), nullable=False, server_default="open"),
        Column("cause", String(10), nullable=False, server_default="session"),
        Column("failures", Integer, nullable=False),
        Column("opened_at", MOMENT, nullable=False),
        Column("retry_at", MOMENT, nullable=False),
        Column("alert", Boolean, nullable=False),
        Column("reason", String(REPLY_LENGTH), nullable=False),
        Column("prober", Uuid()),  # the lease of the probe under way
        Column("refusal", String(REFUSAL_LENGTH)),  # how every email is refused
        # When `retry_at` was last written, or a host last noted that the server is configured.
        Column("seen_at", MOMENT),
        Column("suspect_id", ID),  # the email that was halted last; it may be purged
        **TABLE_OPTIONS,
    )


def server(metadata: MetaData) -> Table:
    """Return the servers: one row per server that has a connection cap or was halted once.

    Batches that take a connection to a server with a cap lock its row, or do without one.
    """
    return Table(
        "outbox_server",
        metadata,
        Column("name", String(SERVER_LENGTH), primary_key=True),
        Column("recovered_at", MOMENT),  # when its breaker closed last
        **TABLE_OPTIONS,
    )


def bucket(metadata: MetaData) -> Table:
    """Return the buckets: one row per limit, such as `all` or `domain:gmail.com`."""
    return Table(
        "outbox_bucket",
        metadata,
        Column("name", String(MAX_BUCKET), primary_key=True),
        # The theoretical arrival time of GCRA: the moment when the permits taken are used up.
        Column("tat", MOMENT, nullable=False),
        Column("taken_at", MOMENT),  # when permits were last taken, by the clock that `tat` uses
        **TABLE_OPTIONS,
    )


def pause(metadata: MetaData) -> Table:
    """Return the pauses: a row for `all` or a priority. The table carries the schema's version."""
    table = Table(
        "outbox_pause",
        metadata,
        Column("scope", String(10), primary_key=True),
        Column("paused_at", MOMENT, nullable=False),
        **TABLE_OPTIONS,
    )
    mark(table.c.paused_at)
    return table


def suppression(metadata: MetaData) -> Table:
    """Return the suppression list: addresses that get no email."""
    return Table(
        "outbox_suppression",
        metadata,
        Column("address", String(MAX_ADDRESS), primary_key=True),
        Column("reason", String(REASON_LENGTH), nullable=False),
        Column("created_at", MOMENT, nullable=False),
        **TABLE_OPTIONS,
    )


def counter(metadata: MetaData) -> Table:
    """Return the counters of rare events, such as a lost lease; each is the sum of its rows."""
    return Table(
        "outbox_counter",
        metadata,
        Column("name", String(50), primary_key=True),
        Column("value", BigInteger, nullable=False),
        **TABLE_OPTIONS,
    )
