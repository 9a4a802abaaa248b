"""Which process has started a lease (schema version 9)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0008"
down_revision = "r0007"


def upgrade() -> None:
    """Add it. The columns may be null, so a worker of the older version goes on."""
    with op.batch_alter_table("outbox_lease") as table:
        table.add_column(sa.Column("boot", sa.String(60)))
        table.add_column(sa.Column("pid", sa.Integer()))
        table.add_column(sa.Column("process_start", sa.BigInteger()))

    with op.batch_alter_table("outbox_pause") as table:
        table.drop_index("ix_outbox_schema_8")
        table.create_index("ix_outbox_schema_9", ["paused_at"])


def downgrade() -> None:
    """Take it back."""
    with op.batch_alter_table("outbox_pause") as table:
        table.drop_index("ix_outbox_schema_9")
        table.create_index("ix_outbox_schema_8", ["paused_at"])

    with op.batch_alter_table("outbox_lease") as table:
        table.drop_column("process_start")
        table.drop_column("pid")
        table.drop_column("boot")
