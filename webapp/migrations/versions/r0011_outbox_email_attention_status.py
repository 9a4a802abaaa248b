"""What needs a person is counted from an index alone (schema version 12)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "r0011"
down_revision = "r0010"

_STATUS = "CASE WHEN status IN ('failed', 'unknown') THEN status END"
_WHERE: dict[str, Any] = {
    f"{dialect}_where": sa.text("attention_at IS NOT NULL")
    for dialect in ("postgresql", "sqlite", "mssql")
}


def upgrade() -> None:
    """Add the column that the database computes. PostgreSQL writes the emails anew for it."""
    # SQLite adds a column that is stored only by a copy of the table, and no copy of Alembic's
    # can hold the computed `attention_at`. One that is not stored is added at once.
    is_stored = op.get_bind().dialect.name != "sqlite"
    computed = sa.Computed(_STATUS, persisted=is_stored)
    op.add_column("outbox_email", sa.Column("attention_status", sa.String(10), computed))
    _change(["attention_at", "id", "attention_status"], old=11, new=12)


def downgrade() -> None:
    """Take it back."""
    _change(["attention_at", "id"], old=12, new=11)
    op.drop_column("outbox_email", "attention_status")


def _change(columns: Sequence[str], *, old: int, new: int) -> None:
    with op.batch_alter_table("outbox_email") as table:
        table.drop_index("ix_outbox_email_attention", **_WHERE)
        table.create_index("ix_outbox_email_attention", list(columns), **_WHERE)

    with op.batch_alter_table("outbox_pause") as table:
        table.drop_index(f"ix_outbox_schema_{old}")
        table.create_index(f"ix_outbox_schema_{new}", ["paused_at"])
