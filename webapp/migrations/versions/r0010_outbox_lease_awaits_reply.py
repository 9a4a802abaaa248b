"""A lease that only waits for the reply to a content takes no slot (schema version 11)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0010"
down_revision = "r0009"


def upgrade() -> None:
    """Add it. It has a server default, so a worker of the older version goes on."""
    with op.batch_alter_table("outbox_lease") as table:
        table.add_column(
            sa.Column("awaits_reply", sa.Boolean(), nullable=False, server_default="0")
        )

    with op.batch_alter_table("outbox_pause") as table:
        table.drop_index("ix_outbox_schema_10")
        table.create_index("ix_outbox_schema_11", ["paused_at"])


def downgrade() -> None:
    """Take it back."""
    with op.batch_alter_table("outbox_pause") as table:
        table.drop_index("ix_outbox_schema_11")
        table.create_index("ix_outbox_schema_10", ["paused_at"])

    with op.batch_alter_table("outbox_lease") as table:
        table.drop_column("awaits_reply")
