"""The emails' tables: a narrow hot table, separate contents, recipients, and the attempt log."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Computed,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
)

from ...domain.config.encryption_keys import MAX_KEY_ID
from ...domain.config.enqueue_options import MAX_KEY, MAX_TAG
from ...domain.delivery.status import FINISHED, LEASED, NEEDS_PERSON, Status
from ...domain.header.address import MAX_ADDRESS
from ...domain.traceparent import LENGTH
from .clock import MOMENT
from .column_types import (
    BLOB,
    DIGEST,
    EMPTY,
    ENHANCED_LENGTH,
    HOT_OPTIONS,
    ID,
    LANE,
    REPLY_LENGTH,
    SERVER_LENGTH,
    SUBJECT,
    TABLE_OPTIONS,
    WORKER_LENGTH,
    exactly,
    given_in,
    hot,
    partial,
    words,
)

_MOMENT_TYPE = "timestamp with time zone"
_TEXT_TYPE = "character varying"


def content(metadata: MetaData) -> Table:
    """Return the contents: written once, read when sent, and never changed but to be redacted."""
    table = Table(
        "outbox_content",
        metadata,
        Column("id", ID, primary_key=True, autoincrement=True),
        Column("size", Integer, nullable=False),  # in clear
        Column("crc32", BigInteger, nullable=False),  # a body that is damaged is not sent
        Column("sha256", DIGEST),  # only for contents that are large enough to be found again
        Column("key_id", String(MAX_KEY_ID)),  # of the encryption key; null: in clear
        Column("body", BLOB, nullable=False),
        Column("subject", SUBJECT),  # as `folded_subject` makes it; null where it is not indexed
        Column("created_at", MOMENT, nullable=False),
        Column("redacted_at", MOMENT),  # if it has a value, the body is gone: no email is sent
        sqlite_autoincrement=True,
        **TABLE_OPTIONS,
    )
    # Not unique: an enqueue must never wait for another request's open transaction.
    partial("ix_outbox_content_sha256", table.c.sha256, where="sha256 IS NOT NULL")
    partial("ix_outbox_content_subject", table.c.subject, table.c.id, where="subject IS NOT NULL")
    return table


def email(metadata: MetaData) -> Table:
    """Return the emails, a hot table: state, schedule, envelope, and each email's own headers."""
    address = String(MAX_ADDRESS)
    table = Table(
        "outbox_email",
        metadata,
        Column("id", ID, primary_key=True, autoincrement=True),
        Column("content_id", ID, ForeignKey("outbox_content.id"), nullable=False),
        Column("due_at", MOMENT),
        Column("token", Uuid()),
        Column("unknown_token", Uuid()),  # the claim whose late verdict may still resolve the doubt
        Column("created_at", MOMENT, nullable=False),
        Column("send_at", MOMENT),
        Column("expires_at", MOMENT),
        Column("finished_at", MOMENT),
        # Null until a person is needed, then the moment and the status. The database computes them,
        # so that they are right whoever changes the status, older code included.
        Column("attention_at", MOMENT, _if_a_person_is_needed("finished_at", _MOMENT_TYPE)),
        Column("size", Integer, nullable=False),
        Column("priority", SmallInteger, nullable=False),
        Column("attempts", SmallInteger, nullable=False, default=0),
        Column("crashes", SmallInteger, nullable=False, default=0),
        Column("unknown_count", SmallInteger, nullable=False, default=0),
        # Seconds: the sum of the delays that the email itself was given. Its lifetime limits them.
        Column("waited", Integer, nullable=False, default=0, server_default="0"),
        Column("max_attempts", SmallInteger),
        Column("recipients", SmallInteger, nullable=False, default=1),
        Column("smtputf8", Boolean, nullable=False, default=False),
        Column("eightbit", Boolean, nullable=False, default=False),
        Column("status", String(10), nullable=False),
        Column("attention_status", String(10), _if_a_person_is_needed("status", _TEXT_TYPE)),
        Column("lane", LANE, nullable=False, server_default=EMPTY),
        Column("on_unknown", String(6)),
        Column("sender", address, nullable=False),
        Column("recipient", address, nullable=False),  # the first one; several have their own table
        Column("message_id", String(255), nullable=False),
        Column("headers", BLOB, nullable=False),  # encrypted if the content is
        Column("esmtp_options", Text),  # JSON: the message's own MAIL and RCPT options
        Column("merge", Text),  # JSON: the reader's values, if it is a template
        Column("key", String(MAX_KEY)),
        Column("fingerprint", DIGEST),
        Column("tag", String(MAX_TAG)),
        Column("redact", Boolean, nullable=False, default=False, server_default="0"),
        Column("redacted_at", MOMENT),  # when its body went, with its own headers and values
        # The request's context. Not with the content, which emails of other requests may share.
        Column("traceparent", String(LENGTH)),
        CheckConstraint(f"status IN ({words(Status)})", name="ck_outbox_email_status"),
        CheckConstraint(exactly(frozenset({Status.PENDING}), "due_at"), name="ck_outbox_email_due"),
        CheckConstraint(exactly(LEASED, "token"), name="ck_outbox_email_token"),
        CheckConstraint(
            f"unknown_count = 0 OR status NOT IN ({words(FINISHED - {Status.SENT})})",
            name="ck_outbox_email_unknown",
        ),
        sqlite_autoincrement=True,
        **HOT_OPTIONS,
    )
    columns = table.c
    # The priority is first, so that a search for urgent email reads no lanes of other email.
    partial(
        "ix_outbox_email_due",
        columns.priority,
        columns.lane,
        columns.due_at,
        columns.id,
        where="due_at IS NOT NULL",
    )
    # The predicate does not name `due_at`: then the index of due emails would serve too. A planner
    # whose statistics have no due email would read all of them for the few that expire.
    # `finished_at` is first for MariaDB and MySQL. They have no predicates, so their index also has
    # the emails that have ended, and a sweep would read all of these.
    partial(
        "ix_outbox_email_expires",
        columns.finished_at,
        columns.expires_at,
        where="finished_at IS NULL AND expires_at IS NOT NULL",
    )
    # With the id, a window looks up only its own emails, and not the whole batch each time.
    partial("ix_outbox_email_token", columns.token, columns.id, where="token IS NOT NULL")
    # With the id, the newest emails of a tag are found without reading all of them.
    partial("ix_outbox_email_tag", columns.tag, columns.id, where="tag IS NOT NULL")
    # With the status, the emails are counted without reading them. It cannot be the status itself:
    # then no change of it would be a HOT update.
    partial(
        "ix_outbox_email_attention",
        columns.attention_at,
        columns.id,
        columns.attention_status,
        where="attention_at IS NOT NULL",
    )
    partial("uq_outbox_email_key", columns.key, where="key IS NOT NULL", unique=True)
    # A unique constraint, because MySQL and MariaDB do not drop the index of a foreign key. With an
    # index a generated downgrade would fail there. A constraint is dropped with its table.
    table.append_constraint(
        UniqueConstraint(columns.content_id, columns.id, name="uq_outbox_email_content_id")
    )
    return hot(table)


def _if_a_person_is_needed(column: str, postgresql: str) -> Computed:
    value = given_in(NEEDS_PERSON, column, postgresql=postgresql)
    return Computed(value, persisted=True)


def recipient(metadata: MetaData) -> Table:
    """Return the recipients: one row each, only for emails with several recipients."""
    return Table(
        "outbox_recipient",
        metadata,
        Column("email_id", ID, ForeignKey("outbox_email.id"), primary_key=True),
        Column("position", SmallInteger, primary_key=True),
        Column("address", String(MAX_ADDRESS), nullable=False),
        Column("status", String(10), nullable=False),
        Column("code", SmallInteger),
        Column("enhanced", String(ENHANCED_LENGTH)),
        Column("reply", String(REPLY_LENGTH)),
        **TABLE_OPTIONS,
    )


def attempt(metadata: MetaData) -> Table:
    """Return the log: one row per SMTP attempt, and one per doubt that a rescue declared.

    There is no foreign key. Checking it would lock each email's row again when its result is
    written. That is a fifth of the database's work while a backlog is sent. The purge removes an
    email's attempts with it.
    """
    table = Table(
        "outbox_attempt",
        metadata,
        Column("id", ID, primary_key=True, autoincrement=True),
        Column("email_id", ID, nullable=False),
        Column("started_at", MOMENT, nullable=False),
        Column("finished_at", MOMENT, nullable=False),
        Column("verdict", String(10), nullable=False),
        Column("phase", String(10), nullable=False),
        Column("code", SmallInteger, nullable=False),
        Column("enhanced", String(ENHANCED_LENGTH), nullable=False),
        Column("reply", String(REPLY_LENGTH), nullable=False),
        Column("worker", String(WORKER_LENGTH), nullable=False),
        Column("server", String(SERVER_LENGTH), nullable=False),
        sqlite_autoincrement=True,
        **TABLE_OPTIONS,
    )
    Index("ix_outbox_attempt_email_id", table.c.email_id)
    return table
