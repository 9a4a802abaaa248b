"""The outbox's tables of people, figures, fleet and privacy (schema version 7)."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "r0004"
down_revision = "r0003"

MOMENT = sa.DateTime(timezone=True).with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
LANE = sa.String(320).with_variant(sa.String(320, collation="C"), "postgresql")
DIGEST = sa.LargeBinary(32).with_variant(mysql.BINARY(32), "mysql", "mariadb")
EMPTY = sa.text("('')")
OPTIONS: dict[str, Any] = {
    f"{dialect}_{name}": value
    for dialect in ("mysql", "mariadb")
    for name, value in {"engine": "InnoDB", "charset": "utf8mb4", "collate": "utf8mb4_bin"}.items()
}


def where(column: str) -> dict[str, Any]:
    """Return the options of a partial index over the rows that have this column."""
    return {
        f"{dialect}_where": sa.text(f"{column} IS NOT NULL")
        for dialect in ("postgresql", "sqlite", "mssql")
    }


def upgrade() -> None:
    """Make the tables."""
    _make_audit()
    _make_body_straggler()
    _make_erased()
    _make_instance()
    _make_lookup()
    _make_stat()
    _make_tally()
    _make_worker()


def downgrade() -> None:
    """Remove the tables."""
    op.drop_table("outbox_worker")
    op.drop_table("outbox_tally")
    op.drop_table("outbox_stat")
    op.drop_table("outbox_lookup")
    op.drop_table("outbox_instance")
    op.drop_table("outbox_erased")
    op.drop_table("outbox_body_straggler")
    op.drop_table("outbox_audit")


def _make_audit() -> None:
    op.create_table(
        "outbox_audit",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("who", sa.String(100), nullable=False),
        sa.Column("action", sa.String(20), nullable=False),
        sa.Column("email_id", ID),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("result", sa.String(200), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
        **OPTIONS,
    )
    op.create_index(
        "ix_outbox_audit_email_id", "outbox_audit", ["email_id", "id"], **where("email_id")
    )


def _make_body_straggler() -> None:
    op.create_table(
        "outbox_body_straggler",
        sa.Column("email_id", ID, autoincrement=False, nullable=False),
        sa.Column("since", MOMENT, nullable=False),
        sa.Column("status", sa.String(10), server_default="pending", nullable=False),
        sa.PrimaryKeyConstraint("email_id"),
        **OPTIONS,
    )
    op.create_index(
        "ix_outbox_body_straggler_since", "outbox_body_straggler", ["status", "since", "email_id"]
    )


def _make_erased() -> None:
    op.create_table(
        "outbox_erased",
        sa.Column("digest", DIGEST, nullable=False),
        sa.Column("secret_id", sa.String(8), nullable=False),
        sa.Column("erased_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("digest"),
        **OPTIONS,
    )


def _make_instance() -> None:
    op.create_table(
        "outbox_instance",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("instance", sa.String(36), nullable=False),
        sa.Column("name", sa.String(64), server_default=EMPTY, nullable=False),
        sa.Column("cluster", sa.String(64), server_default=EMPTY, nullable=False),
        sa.Column("timeline", sa.String(64), server_default=EMPTY, nullable=False),
        sa.Column("home", sa.String(200), server_default=EMPTY, nullable=False),
        sa.Column("made_at", MOMENT, nullable=False),
        sa.Column("seen_at", MOMENT, nullable=False),
        sa.Column("holding_at", MOMENT),
        sa.Column("held_at", MOMENT),
        sa.PrimaryKeyConstraint("id"),
        **OPTIONS,
    )


def _make_lookup() -> None:
    op.create_table(
        "outbox_lookup",
        sa.Column("digest", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("email_id", ID, autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("digest", "email_id"),
        sqlite_with_rowid=False,
        **OPTIONS,
    )


def _make_stat() -> None:
    op.create_table(
        "outbox_stat",
        sa.Column("span", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("minute", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("server", sa.String(255), autoincrement=False, nullable=False),
        sa.Column("route", LANE, autoincrement=False, nullable=False),
        sa.Column("priority", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("verdict", sa.String(10), autoincrement=False, nullable=False),
        sa.Column("code", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("bin", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "span", "minute", "server", "route", "priority", "verdict", "code", "bin"
        ),
        **OPTIONS,
    )


def _make_tally() -> None:
    op.create_table(
        "outbox_tally",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("minute", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("server", sa.String(255), autoincrement=False, nullable=False),
        sa.Column("route", LANE, autoincrement=False, nullable=False),
        sa.Column("priority", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("verdict", sa.String(10), autoincrement=False, nullable=False),
        sa.Column("code", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("bin", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
        **OPTIONS,
    )


def _make_worker() -> None:
    op.create_table(
        "outbox_worker",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("boot", sa.String(60), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("process_start", sa.BigInteger(), nullable=False),
        sa.Column("queues", sa.Text(), nullable=False),
        sa.Column("pool", sa.String(50), nullable=False),
        sa.Column("concurrency", sa.Integer(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("tasks", sa.Integer(), nullable=False),
        sa.Column("version", sa.String(30), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("started_at", MOMENT, nullable=False),
        sa.Column("seen_at", MOMENT, nullable=False),
        sa.Column("stopped_at", MOMENT),
        sa.PrimaryKeyConstraint("id"),
        **OPTIONS,
    )
