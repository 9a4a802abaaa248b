"""The outbox's jobs (schema version 8)."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "r0007"
down_revision = "r0006"

MOMENT = sa.DateTime(timezone=True).with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
BLOB = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
EMPTY = sa.text("('')")
OPTIONS: dict[str, Any] = {
    f"{dialect}_{name}": value
    for dialect in ("mysql", "mariadb")
    for name, value in {"engine": "InnoDB", "charset": "utf8mb4", "collate": "utf8mb4_bin"}.items()
}


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "outbox_job",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("action", sa.String(20), nullable=False),
        sa.Column("filters", sa.Text(), nullable=False),
        sa.Column("sealed", BLOB),
        sa.Column("key_id", sa.String(32)),
        sa.Column("who", sa.String(100)),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("reason", sa.String(200), server_default=EMPTY, nullable=False),
        sa.Column("upto", sa.String(40), nullable=False),
        sa.Column("place", sa.String(40), nullable=False),
        sa.Column("first_place", sa.String(40)),
        sa.Column("last_place", sa.String(40)),
        sa.Column("held", sa.Text(), nullable=False),
        sa.Column("found", sa.Integer(), nullable=False),
        sa.Column("more", sa.Boolean(), nullable=False),
        sa.Column("changed", sa.Integer(), server_default="0", nullable=False),
        sa.Column("unchanged", sa.Integer(), server_default="0", nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("updated_at", MOMENT, nullable=False),
        sa.Column("finished_at", MOMENT),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
        **OPTIONS,
    )


def downgrade() -> None:
    """Take it back."""
    op.drop_table("outbox_job")
