"""What surrounds the emails: leases, breakers, servers, buckets, pauses, suppression, counters."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Uuid,
)

from ...domain.delivery.refusal_streak import REFUSAL_LENGTH
from ...domain.header.address import MAX_ADDRESS
from ...domain.scheduling.lanes import MAX_BUCKET
from .clock import MOMENT
from .column_types import (
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
    """One row a claim: renewing it is one small write that touches no email."""
    return Table(
        "outbox_lease",
        metadata,
        Column("token", Uuid(), primary_key=True),
        Column("priority", SmallInteger, nullable=False),
        Column("lane", LANE, nullable=False, server_default=EMPTY),
        Column("emails", Integer, nullable=False, server_default="0"),  # as they were claimed
        Column("claimed_at", MOMENT, nullable=False),
        Column("expires_at", MOMENT, nullable=False),
        Column("started_at", MOMENT),
        Column("suspected_at", MOMENT),
        Column("worker", String(WORKER_LENGTH)),
        Column("server", String(SERVER_LENGTH)),  # whose connection cap it counts against
        **TABLE_OPTIONS,
    )


def breaker(metadata: MetaData) -> Table:
    """One row a server that is suspected, or cannot be used now; no row means that it can."""
    return Table(
        "outbox_breaker",
        metadata,
        Column("server", String(SERVER_LENGTH), primary_key=True),
        # The defaults are for an older worker beside this one: it knows open breakers only.
        Column("state", String(10), nullable=False, server_default="open"),
        Column("cause", String(10), nullable=False, server_default="session"),
        Column("failures", Integer, nullable=False),
        Column("opened_at", MOMENT, nullable=False),
        Column("retry_at", MOMENT, nullable=False),
        Column("alert", Boolean, nullable=False),
        Column("reason", String(REPLY_LENGTH), nullable=False),
        Column("prober", Uuid()),  # the lease of the probe under way
        Column("refusal", String(REFUSAL_LENGTH)),  # how it refuses every email
        Column("seen_at", MOMENT),  # when somebody last had it in a configuration
        Column("suspect_id", ID),  # the email that was halted last; it may be gone
        **TABLE_OPTIONS,
    )


def server(metadata: MetaData) -> Table:
    """One row a server that has a connection cap, where its batches queue up, or that was down."""
    return Table(
        "outbox_server",
        metadata,
        Column("name", String(SERVER_LENGTH), primary_key=True),
        Column("recovered_at", MOMENT),  # when its breaker closed last
        **TABLE_OPTIONS,
    )


def bucket(metadata: MetaData) -> Table:
    """One row a limit, such as `all` or `domain:gmail.com`: the moment its permits are used up."""
    return Table(
        "outbox_bucket",
        metadata,
        Column("name", String(MAX_BUCKET), primary_key=True),
        Column("tat", MOMENT, nullable=False),  # the theoretical arrival time of GCRA
        Column("taken_at", MOMENT),  # of the last take, by the clock that `tat` counts from
        **TABLE_OPTIONS,
    )


def pause(metadata: MetaData) -> Table:
    """What a person has paused: `all`, or a priority's name. It carries the schema's version."""
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
    """Addresses that get no email."""
    return Table(
        "outbox_suppression",
        metadata,
        Column("address", String(MAX_ADDRESS), primary_key=True),
        Column("reason", String(REASON_LENGTH), nullable=False),
        Column("created_at", MOMENT, nullable=False),
        **TABLE_OPTIONS,
    )


def counter(metadata: MetaData) -> Table:
    """How often something rare happened, such as a lost lease."""
    return Table(
        "outbox_counter",
        metadata,
        Column("name", String(50), primary_key=True),
        Column("value", BigInteger, nullable=False),
        **TABLE_OPTIONS,
    )


def purge(metadata: MetaData) -> Table:
    """One row: how far purge has gone, and which purge is under way, until when at most."""
    return Table(
        "outbox_purge",
        metadata,
        Column("id", SmallInteger, primary_key=True, autoincrement=False),
        Column("walked", ID, nullable=False),  # every email up to this id was passed
        Column("searched", ID, nullable=False),  # behind it, for those that were not seen then
        Column("token", Uuid()),
        Column("expires_at", MOMENT),
        **TABLE_OPTIONS,
    )


def straggler(metadata: MetaData) -> Table:
    """Emails that purge has passed and could not remove yet. They may be gone: no foreign key."""
    table = Table(
        "outbox_straggler",
        metadata,
        Column("email_id", ID, primary_key=True, autoincrement=False),
        Column("since", MOMENT, nullable=False),  # when it finished; else when it was seen
        **TABLE_OPTIONS,
    )
    Index("ix_outbox_straggler_since", table.c.since, table.c.email_id)
    return table
