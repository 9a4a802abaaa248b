"""The tables: a narrow hot one, the contents apart, and what surrounds them.

They are made on the app's own metadata, so that `create_all()` and Alembic's autogenerate find
them. The constraints are made from the lifecycle's table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects import mysql

from ..domain.address import MAX_ADDRESS
from ..domain.lifecycle import FINISHED, LEASED, Status
from ..domain.options import MAX_KEY, MAX_TAG
from .clock import MOMENT

REPLY_LENGTH = 500

_ID = BigInteger().with_variant(Integer, "sqlite")
_BLOB = LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
_OPTIONS: dict[str, Any] = {
    f"{dialect}_{name}": value
    for dialect in ("mysql", "mariadb")
    for name, value in {"engine": "InnoDB", "charset": "utf8mb4", "collate": "utf8mb4_bin"}.items()
}


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Our tables on one metadata."""

    email: Table
    content: Table
    recipient: Table
    attempt: Table
    lease: Table
    breaker: Table
    pause: Table
    suppression: Table
    counter: Table


def define(metadata: MetaData) -> Tables:
    """Return the tables on this metadata, making them the first time."""
    makers = {
        "content": _content,
        "email": _email,
        "recipient": _recipient,
        "attempt": _attempt,
        "lease": _lease,
        "breaker": _breaker,
        "pause": _pause,
        "suppression": _suppression,
        "counter": _counter,
    }
    prefix = f"{metadata.schema}." if metadata.schema else ""
    made = {
        name: metadata.tables[full]
        if (full := f"{prefix}outbox_{name}") in metadata.tables
        else maker(metadata)
        for name, maker in makers.items()
    }
    return Tables(**made)


def _words(statuses: frozenset[Status] | type[Status]) -> str:
    return ", ".join(f"'{status}'" for status in sorted(statuses))


def _exactly(statuses: frozenset[Status], column: str) -> str:
    """`column` has a value in these statuses and in no other."""
    words = _words(statuses)
    return (
        f"(status IN ({words}) AND {column} IS NOT NULL)"
        f" OR (status NOT IN ({words}) AND {column} IS NULL)"
    )


def _partial(name: str, *columns: Column[object], where: str, unique: bool = False) -> Index:
    """An index over the rows that matter; where a database has none such, a full one.

    The predicates speak of nullness and not of the status, so that opening a window (claimed to
    sending) touches no index and stays a HOT update on PostgreSQL.
    """
    clause = text(where)
    return Index(
        name,
        *columns,
        unique=unique,
        postgresql_where=clause,
        sqlite_where=clause,
        mssql_where=clause,
    )


def _content(metadata: MetaData) -> Table:
    """Immutable: written once, read when sent, removed by purge."""
    table = Table(
        "outbox_content",
        metadata,
        Column("id", _ID, primary_key=True, autoincrement=True),
        Column("size", Integer, nullable=False),
        Column("sha256", LargeBinary(32)),  # only of contents that are worth finding again
        Column("body", _BLOB, nullable=False),
        Column("created_at", MOMENT, nullable=False),
        sqlite_autoincrement=True,
        **_OPTIONS,
    )
    # Not unique: an enqueue must never wait for another request's open transaction.
    _partial("ix_outbox_content_sha256", table.c.sha256, where="sha256 IS NOT NULL")
    return table


def _email(metadata: MetaData) -> Table:
    """Hot: state, schedule, envelope, and the few headers that are the mail's own."""
    address = String(MAX_ADDRESS)
    table = Table(
        "outbox_email",
        metadata,
        Column("id", _ID, primary_key=True, autoincrement=True),
        Column("content_id", _ID, ForeignKey("outbox_content.id"), nullable=False),
        Column("due_at", MOMENT),
        Column("token", Uuid()),
        Column("doubt_token", Uuid()),  # the claim whose late verdict may still settle its doubt
        Column("created_at", MOMENT, nullable=False),
        Column("send_at", MOMENT),
        Column("expires_at", MOMENT),
        Column("finished_at", MOMENT),
        Column("size", Integer, nullable=False),
        Column("priority", SmallInteger, nullable=False),
        Column("attempts", SmallInteger, nullable=False, default=0),
        Column("deliveries", SmallInteger, nullable=False, default=0),
        Column("doubts", SmallInteger, nullable=False, default=0),
        Column("max_attempts", SmallInteger),
        Column("recipients", SmallInteger, nullable=False, default=1),
        Column("smtputf8", Boolean, nullable=False, default=False),
        Column("eightbit", Boolean, nullable=False, default=False),
        Column("status", String(10), nullable=False),
        Column("on_unknown", String(6)),
        Column("sender", address, nullable=False),
        Column("recipient", address, nullable=False),  # the first one; more are in their own table
        Column("message_id", String(255), nullable=False),
        Column("headers", _BLOB, nullable=False),
        Column("esmtp_options", Text),  # JSON: the message's own mail and rcpt options
        Column("key", String(MAX_KEY)),
        Column("fingerprint", LargeBinary(32)),
        Column("tag", String(MAX_TAG)),
        CheckConstraint(f"status IN ({_words(Status)})", name="ck_outbox_email_status"),
        CheckConstraint(
            _exactly(frozenset({Status.PENDING}), "due_at"), name="ck_outbox_email_due"
        ),
        CheckConstraint(_exactly(LEASED, "token"), name="ck_outbox_email_token"),
        CheckConstraint(
            f"doubts = 0 OR status NOT IN ({_words(FINISHED - {Status.SENT})})",
            name="ck_outbox_email_doubt",
        ),
        sqlite_autoincrement=True,
        **_OPTIONS,
    )
    columns = table.c
    _partial(
        "ix_outbox_email_due",
        columns.priority,
        columns.due_at,
        columns.id,
        where="due_at IS NOT NULL",
    )
    _partial(
        "ix_outbox_email_expires",
        columns.expires_at,
        where="due_at IS NOT NULL AND expires_at IS NOT NULL",
    )
    _partial("ix_outbox_email_token", columns.token, where="token IS NOT NULL")
    _partial("ix_outbox_email_tag", columns.tag, where="tag IS NOT NULL")
    _partial("uq_outbox_email_key", columns.key, where="key IS NOT NULL", unique=True)
    Index("ix_outbox_email_content_id", columns.content_id)
    return table


def _recipient(metadata: MetaData) -> Table:
    """One row a recipient, only for mails that have several."""
    return Table(
        "outbox_recipient",
        metadata,
        Column("email_id", _ID, ForeignKey("outbox_email.id"), primary_key=True),
        Column("position", SmallInteger, primary_key=True),
        Column("address", String(MAX_ADDRESS), nullable=False),
        Column("status", String(10), nullable=False),
        Column("code", SmallInteger),
        Column("enhanced", String(12)),
        Column("reply", String(REPLY_LENGTH)),
        **_OPTIONS,
    )


def _attempt(metadata: MetaData) -> Table:
    """The log: one row an SMTP attempt, and one a doubt that a rescue had to declare.

    No foreign key: checking it would lock each mail's row again as its result is written, a fifth
    of the database's work in a drain. Purge removes a mail's attempts with it.
    """
    table = Table(
        "outbox_attempt",
        metadata,
        Column("id", _ID, primary_key=True, autoincrement=True),
        Column("email_id", _ID, nullable=False),
        Column("started_at", MOMENT, nullable=False),
        Column("finished_at", MOMENT, nullable=False),
        Column("verdict", String(10), nullable=False),
        Column("phase", String(10), nullable=False),
        Column("code", SmallInteger, nullable=False),
        Column("enhanced", String(12), nullable=False),
        Column("reply", String(REPLY_LENGTH), nullable=False),
        Column("worker", String(100), nullable=False),
        Column("server", String(255), nullable=False),
        sqlite_autoincrement=True,
        **_OPTIONS,
    )
    Index("ix_outbox_attempt_email_id", table.c.email_id)
    return table


def _lease(metadata: MetaData) -> Table:
    """One row a claim: renewing it is one small write that touches no mail."""
    return Table(
        "outbox_lease",
        metadata,
        Column("token", Uuid(), primary_key=True),
        Column("priority", SmallInteger, nullable=False),
        Column("claimed_at", MOMENT, nullable=False),
        Column("expires_at", MOMENT, nullable=False),
        Column("started_at", MOMENT),
        Column("suspected_at", MOMENT),
        Column("worker", String(100)),
        **_OPTIONS,
    )


def _breaker(metadata: MetaData) -> Table:
    """One row a server that cannot be used now; no row means that it can."""
    return Table(
        "outbox_breaker",
        metadata,
        Column("server", String(255), primary_key=True),
        Column("failures", Integer, nullable=False),
        Column("opened_at", MOMENT, nullable=False),
        Column("retry_at", MOMENT, nullable=False),
        Column("alert", Boolean, nullable=False),
        Column("reason", String(REPLY_LENGTH), nullable=False),
        **_OPTIONS,
    )


def _pause(metadata: MetaData) -> Table:
    """What a person has paused: `all`, or a priority's name."""
    return Table(
        "outbox_pause",
        metadata,
        Column("scope", String(10), primary_key=True),
        Column("paused_at", MOMENT, nullable=False),
        **_OPTIONS,
    )


def _suppression(metadata: MetaData) -> Table:
    """Addresses that get no mail."""
    return Table(
        "outbox_suppression",
        metadata,
        Column("address", String(MAX_ADDRESS), primary_key=True),
        Column("reason", String(200), nullable=False),
        Column("created_at", MOMENT, nullable=False),
        **_OPTIONS,
    )


def _counter(metadata: MetaData) -> Table:
    """How often something rare happened, such as a lost lease."""
    return Table(
        "outbox_counter",
        metadata,
        Column("name", String(50), primary_key=True),
        Column("value", BigInteger, nullable=False),
        **_OPTIONS,
    )
