"""The outbox's control tables, from leases to the purge's marks (schema version 6)."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "r0002"
down_revision = "r0001"

MOMENT = sa.DateTime(timezone=True).with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
LANE = sa.String(320).with_variant(sa.String(320, collation="C"), "postgresql")
EMPTY = sa.text("('')")
OPTIONS: dict[str, Any] = {
    f"{dialect}_{name}": value
    for dialect in ("mysql", "mariadb")
    for name, value in {"engine": "InnoDB", "charset": "utf8mb4", "collate": "utf8mb4_bin"}.items()
}


def upgrade() -> None:
    """Make the tables."""
    _make_lease()
    _make_breaker()
    _make_server()
    _make_bucket()
    _make_pause()
    _make_suppression()
    _make_counter()
    _make_purge()
    _make_straggler()


def downgrade() -> None:
    """Remove the tables."""
    op.drop_table("outbox_straggler")
    op.drop_table("outbox_purge")
    op.drop_table("outbox_counter")
    op.drop_table("outbox_suppression")
    op.drop_table("outbox_pause")
    op.drop_table("outbox_bucket")
    op.drop_table("outbox_server")
    op.drop_table("outbox_breaker")
    op.drop_table("outbox_lease")


def _make_lease() -> None:
    op.create_table(
        "outbox_lease",
        sa.Column("token", sa.Uuid(), nullable=False),
        sa.Column("priority", sa.SmallInteger(), nullable=False),
        sa.Column("lane", LANE, server_default=EMPTY, nullable=False),
        sa.Column("emails", sa.Integer(), server_default="0", nullable=False),
        sa.Column("claimed_at", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.Column("started_at", MOMENT),
        sa.Column("suspected_at", MOMENT),
        sa.Column("worker", sa.String(100)),
        sa.Column("server", sa.String(255)),
        sa.PrimaryKeyConstraint("token"),
        **OPTIONS,
    )


def _make_breaker() -> None:
    op.create_table(
        "outbox_breaker",
        sa.Column("server", sa.String(255), nullable=False),
        sa.Column("state", sa.String(10), server_default="open", nullable=False),
        sa.Column("cause", sa.String(10), server_default="session", nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("opened_at", MOMENT, nullable=False),
        sa.Column("retry_at", MOMENT, nullable=False),
        sa.Column("alert", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.String(500), nullable=False),
        sa.Column("prober", sa.Uuid()),
        sa.Column("refusal", sa.String(255)),
        sa.Column("seen_at", MOMENT),
        sa.Column("suspect_id", ID),
        sa.PrimaryKeyConstraint("server"),
        **OPTIONS,
    )


def _make_server() -> None:
    op.create_table(
        "outbox_server",
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("recovered_at", MOMENT),
        sa.PrimaryKeyConstraint("name"),
        **OPTIONS,
    )


def _make_bucket() -> None:
    op.create_table(
        "outbox_bucket",
        sa.Column("name", sa.String(320), nullable=False),
        sa.Column("tat", MOMENT, nullable=False),
        sa.Column("taken_at", MOMENT),
        sa.PrimaryKeyConstraint("name"),
        **OPTIONS,
    )


def _make_pause() -> None:
    op.create_table(
        "outbox_pause",
        sa.Column("scope", sa.String(10), nullable=False),
        sa.Column("paused_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("scope"),
        **OPTIONS,
    )
    op.create_index("ix_outbox_schema_6", "outbox_pause", ["paused_at"])


def _make_suppression() -> None:
    op.create_table(
        "outbox_suppression",
        sa.Column("address", sa.String(254), nullable=False),
        sa.Column("reason", sa.String(200), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("address"),
        **OPTIONS,
    )


def _make_counter() -> None:
    op.create_table(
        "outbox_counter",
        sa.Column("name", sa.String(50), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        **OPTIONS,
    )


def _make_purge() -> None:
    op.create_table(
        "outbox_purge",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("walked", ID, nullable=False),
        sa.Column("searched", ID, nullable=False),
        sa.Column("token", sa.Uuid()),
        sa.Column("expires_at", MOMENT),
        sa.PrimaryKeyConstraint("id"),
        **OPTIONS,
    )


def _make_straggler() -> None:
    op.create_table(
        "outbox_straggler",
        sa.Column("email_id", ID, autoincrement=False, nullable=False),
        sa.Column("since", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("email_id"),
        **OPTIONS,
    )
    op.create_index("ix_outbox_straggler_since", "outbox_straggler", ["since", "email_id"])
