"""The outbox's emails: contents, emails, recipients and attempts (schema version 6)."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "r0001"
down_revision = None

MOMENT = sa.DateTime(timezone=True).with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
LANE = sa.String(320).with_variant(sa.String(320, collation="C"), "postgresql")
EMPTY = sa.text("('')")
BLOB = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
DIGEST = sa.LargeBinary(32).with_variant(mysql.BINARY(32), "mysql", "mariadb")
OPTIONS: dict[str, Any] = {
    f"{dialect}_{name}": value
    for dialect in ("mysql", "mariadb")
    for name, value in {"engine": "InnoDB", "charset": "utf8mb4", "collate": "utf8mb4_bin"}.items()
}


def upgrade() -> None:
    """Make the tables."""
    _make_content()
    _make_email()
    _make_recipient()
    _make_attempt()


def downgrade() -> None:
    """Remove the tables."""
    op.drop_table("outbox_attempt")
    op.drop_table("outbox_recipient")
    op.drop_table("outbox_email")
    op.drop_table("outbox_content")


def _make_content() -> None:
    op.create_table(
        "outbox_content",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("crc32", sa.BigInteger(), nullable=False),
        sa.Column("sha256", DIGEST),
        sa.Column("body", BLOB, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
        **OPTIONS,
    )
    _partial("ix_outbox_content_sha256", "outbox_content", ["sha256"], "sha256 IS NOT NULL")


def _make_email() -> None:
    op.create_table(
        "outbox_email",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("content_id", ID, nullable=False),
        sa.Column("due_at", MOMENT),
        sa.Column("token", sa.Uuid()),
        sa.Column("unknown_token", sa.Uuid()),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("send_at", MOMENT),
        sa.Column("expires_at", MOMENT),
        sa.Column("finished_at", MOMENT),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("priority", sa.SmallInteger(), nullable=False),
        sa.Column("attempts", sa.SmallInteger(), nullable=False),
        sa.Column("crashes", sa.SmallInteger(), nullable=False),
        sa.Column("unknown_count", sa.SmallInteger(), nullable=False),
        sa.Column("waited", sa.Integer(), server_default="0", nullable=False),
        sa.Column("max_attempts", sa.SmallInteger()),
        sa.Column("recipients", sa.SmallInteger(), nullable=False),
        sa.Column("smtputf8", sa.Boolean(), nullable=False),
        sa.Column("eightbit", sa.Boolean(), nullable=False),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("lane", LANE, server_default=EMPTY, nullable=False),
        sa.Column("on_unknown", sa.String(6)),
        sa.Column("sender", sa.String(254), nullable=False),
        sa.Column("recipient", sa.String(254), nullable=False),
        sa.Column("message_id", sa.String(255), nullable=False),
        sa.Column("headers", BLOB, nullable=False),
        sa.Column("esmtp_options", sa.Text()),
        sa.Column("merge", sa.Text()),
        sa.Column("key", sa.String(255)),
        sa.Column("fingerprint", DIGEST),
        sa.Column("tag", sa.String(100)),
        sa.CheckConstraint(
            "(status IN ('claimed', 'sending') AND token IS NOT NULL)"
            " OR (status NOT IN ('claimed', 'sending') AND token IS NULL)",
            name="ck_outbox_email_token",
        ),
        sa.CheckConstraint(
            "(status IN ('pending') AND due_at IS NOT NULL)"
            " OR (status NOT IN ('pending') AND due_at IS NULL)",
            name="ck_outbox_email_due",
        ),
        sa.CheckConstraint(
            "status IN ('cancelled', 'claimed', 'expired', 'failed', 'pending', 'sending', 'sent',"
            " 'suppressed', 'unknown')",
            name="ck_outbox_email_status",
        ),
        sa.CheckConstraint(
            "unknown_count = 0 OR status NOT IN ('cancelled', 'expired', 'failed', 'suppressed')",
            name="ck_outbox_email_unknown",
        ),
        sa.ForeignKeyConstraint(["content_id"], ["outbox_content.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("content_id", "id", name="uq_outbox_email_content_id"),
        postgresql_with={
            "fillfactor": 50,
            "autovacuum_vacuum_scale_factor": 0.01,
            "autovacuum_vacuum_threshold": 10000,
        },
        sqlite_autoincrement=True,
        **OPTIONS,
    )
    _partial(
        "ix_outbox_email_due",
        "outbox_email",
        ["priority", "lane", "due_at", "id"],
        "due_at IS NOT NULL",
    )
    _partial(
        "ix_outbox_email_expires",
        "outbox_email",
        ["expires_at"],
        "finished_at IS NULL AND expires_at IS NOT NULL",
    )
    _partial("ix_outbox_email_tag", "outbox_email", ["tag"], "tag IS NOT NULL")
    _partial("ix_outbox_email_token", "outbox_email", ["token", "id"], "token IS NOT NULL")
    _partial("uq_outbox_email_key", "outbox_email", ["key"], "key IS NOT NULL", unique=True)


def _make_recipient() -> None:
    op.create_table(
        "outbox_recipient",
        sa.Column("email_id", ID, nullable=False),
        sa.Column("position", sa.SmallInteger(), nullable=False),
        sa.Column("address", sa.String(254), nullable=False),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("code", sa.SmallInteger()),
        sa.Column("enhanced", sa.String(12)),
        sa.Column("reply", sa.String(500)),
        sa.ForeignKeyConstraint(["email_id"], ["outbox_email.id"]),
        sa.PrimaryKeyConstraint("email_id", "position"),
        **OPTIONS,
    )


def _make_attempt() -> None:
    op.create_table(
        "outbox_attempt",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("email_id", ID, nullable=False),
        sa.Column("started_at", MOMENT, nullable=False),
        sa.Column("finished_at", MOMENT, nullable=False),
        sa.Column("verdict", sa.String(10), nullable=False),
        sa.Column("phase", sa.String(10), nullable=False),
        sa.Column("code", sa.SmallInteger(), nullable=False),
        sa.Column("enhanced", sa.String(12), nullable=False),
        sa.Column("reply", sa.String(500), nullable=False),
        sa.Column("worker", sa.String(100), nullable=False),
        sa.Column("server", sa.String(255), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
        **OPTIONS,
    )
    op.create_index("ix_outbox_attempt_email_id", "outbox_attempt", ["email_id"])


def _partial(
    name: str, table: str, columns: list[str], where: str, *, unique: bool = False
) -> None:
    clause = sa.text(where)
    op.create_index(
        name, table, columns, unique=unique, postgresql_where=clause, sqlite_where=clause
    )
