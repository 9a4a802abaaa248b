"""What surrounds the mails: leases, breakers, servers, buckets, pauses, suppression, counters."""

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

from ..domain.address import MAX_ADDRESS
from ..domain.lanes import MAX_BUCKET
from ..domain.refusals import REFUSAL_LENGTH
from .clock import MOMENT
from .columns import LANE, REPLY_LENGTH, TABLE_OPTIONS
from .version import mark

SERVER_LENGTH = 255


def lease(metadata: MetaData) -> Table:
    """One row a claim: renewing it is one small write that touches no mail."""
    return Table(
        "outbox_lease",
        metadata,
        Column("token", Uuid(), primary_key=True),
        Column("priority", SmallInteger, nullable=False),
        Column("lane", LANE, nullable=False, server_default=""),
        Column("mails", Integer, nullable=False, server_default="0"),  # as they were claimed
        Column("claimed_at", MOMENT, nullable=False),
        Column("expires_at", MOMENT, nullable=False),
        Column("started_at", MOMENT),
        Column("suspected_at", MOMENT),
        Column("worker", String(100)),
        Column("server", String(SERVER_LENGTH)),  # whose connection cap it counts against
        **TABLE_OPTIONS,
    )


def breaker(metadata: MetaData) -> Table:
    """One row a server that cannot be used now; no row means that it can."""
    return Table(
        "outbox_breaker",
        metadata,
        Column("server", String(SERVER_LENGTH), primary_key=True),
        Column("failures", Integer, nullable=False),
        Column("opened_at", MOMENT, nullable=False),
        Column("retry_at", MOMENT, nullable=False),
        Column("alert", Boolean, nullable=False),
        Column("reason", String(REPLY_LENGTH), nullable=False),
        Column("prober", Uuid()),  # the lease of the probe under way
        Column("refusal", String(REFUSAL_LENGTH)),  # how it refuses every mail
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
    """Addresses that get no mail."""
    return Table(
        "outbox_suppression",
        metadata,
        Column("address", String(MAX_ADDRESS), primary_key=True),
        Column("reason", String(200), nullable=False),
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
