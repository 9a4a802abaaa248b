"""The index of emails that expire, for MariaDB's sake (schema version 10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "r0009"
down_revision = "r0008"

_WHERE: dict[str, Any] = {
    f"{dialect}_where": sa.text("finished_at IS NULL AND expires_at IS NOT NULL")
    for dialect in ("postgresql", "sqlite", "mssql")
}


def upgrade() -> None:
    """Make it anew: it begins with the end, which no email has that still waits."""
    _change(["finished_at", "expires_at"], old=9, new=10)


def downgrade() -> None:
    """Take it back."""
    _change(["expires_at"], old=10, new=9)


def _change(columns: Sequence[str], *, old: int, new: int) -> None:
    with op.batch_alter_table("outbox_email") as table:
        table.drop_index("ix_outbox_email_expires", **_WHERE)
        table.create_index("ix_outbox_email_expires", list(columns), **_WHERE)

    with op.batch_alter_table("outbox_pause") as table:
        table.drop_index(f"ix_outbox_schema_{old}")
        table.create_index(f"ix_outbox_schema_{new}", ["paused_at"])
