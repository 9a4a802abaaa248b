"""The context of the request that wrote an email (schema version 8)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0006"
down_revision = "r0005"


def upgrade() -> None:
    """Add it. The column may be null, so no database writes the emails anew."""
    with op.batch_alter_table("outbox_email") as table:
        table.add_column(sa.Column("traceparent", sa.String(55)))

    with op.batch_alter_table("outbox_pause") as table:
        table.drop_index("ix_outbox_schema_7")
        table.create_index("ix_outbox_schema_8", ["paused_at"])


def downgrade() -> None:
    """Take it back. On SQLite a batch would copy the table, and `attention_at` takes no copy."""
    with op.batch_alter_table("outbox_pause") as table:
        table.drop_index("ix_outbox_schema_8")
        table.create_index("ix_outbox_schema_7", ["paused_at"])

    op.drop_column("outbox_email", "traceparent")
