"""The outbox's new columns and indexes (schema version 7)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from alembic import op
from alembic.operations import BatchOperations
from sqlalchemy.dialects import mysql

revision = "r0005"
down_revision = "r0004"

MOMENT = sa.DateTime(timezone=True).with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
SUBJECT = sa.String(200).with_variant(sa.String(200, collation="C"), "postgresql")

LAST = "SELECT seq FROM sqlite_sequence WHERE name = :name"
FORGET = "DELETE FROM sqlite_sequence WHERE name = :name"
KEEP = "INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :last)"


def where(column: str) -> dict[str, Any]:
    """Return the options of a partial index over the rows that have this column."""
    return {
        f"{dialect}_where": sa.text(f"{column} IS NOT NULL")
        for dialect in ("postgresql", "sqlite", "mssql")
    }


@contextmanager
def copied(name: str) -> Iterator[BatchOperations]:
    """Change a table that SQLite may have to copy: the copy gives no id of a purged row again.

    Alembic does not see the old table's AUTOINCREMENT, and SQLite forgets the last id with it.
    """
    database = op.get_bind()
    # With --sql there is no database to ask. Alembic says so where it would copy the table.
    may_copy = database.dialect.name == "sqlite" and not op.get_context().as_sql
    values = {"name": name, "last": may_copy and database.scalar(sa.text(LAST), {"name": name})}
    with op.batch_alter_table(name, table_kwargs={"sqlite_autoincrement": True}) as table:
        yield table
    if values["last"]:
        for statement in (FORGET, KEEP):
            database.execute(sa.text(statement), values)


def upgrade() -> None:
    """Add them. PostgreSQL writes the emails anew, for the column that it computes."""
    with copied("outbox_content") as table:
        table.add_column(sa.Column("key_id", sa.String(32)))
        table.add_column(sa.Column("subject", SUBJECT))
        table.add_column(sa.Column("redacted_at", MOMENT))
        table.create_index("ix_outbox_content_subject", ["subject", "id"], **where("subject"))

    with copied("outbox_email") as table:
        table.add_column(
            sa.Column(
                "attention_at",
                MOMENT,
                sa.Computed(
                    "CASE WHEN status IN ('failed', 'unknown') THEN finished_at END", persisted=True
                ),
            )
        )
        table.add_column(sa.Column("redact", sa.Boolean(), server_default="0", nullable=False))
        table.add_column(sa.Column("redacted_at", MOMENT))
        table.drop_index("ix_outbox_email_tag", **where("tag"))
        table.create_index("ix_outbox_email_tag", ["tag", "id"], **where("tag"))
        table.create_index(
            "ix_outbox_email_attention", ["attention_at", "id"], **where("attention_at")
        )

    with op.batch_alter_table("outbox_pause") as table:
        table.drop_index("ix_outbox_schema_6")
        table.create_index("ix_outbox_schema_7", ["paused_at"])

    with op.batch_alter_table("outbox_purge") as table:
        table.add_column(sa.Column("bodies_walked", ID, server_default="0", nullable=False))
        table.add_column(sa.Column("bodies_searched", ID, server_default="0", nullable=False))
        table.add_column(sa.Column("empty_content_id", ID))

    with op.batch_alter_table("outbox_straggler") as table:
        table.add_column(
            sa.Column("status", sa.String(10), server_default="pending", nullable=False)
        )
        table.drop_index("ix_outbox_straggler_since")
        table.create_index("ix_outbox_straggler_since", ["status", "since", "email_id"])


def downgrade() -> None:
    """Take them back."""
    with op.batch_alter_table("outbox_straggler") as table:
        table.drop_index("ix_outbox_straggler_since")
        table.create_index("ix_outbox_straggler_since", ["since", "email_id"])
        table.drop_column("status")

    with op.batch_alter_table("outbox_purge") as table:
        table.drop_column("empty_content_id")
        table.drop_column("bodies_searched")
        table.drop_column("bodies_walked")

    with op.batch_alter_table("outbox_pause") as table:
        table.drop_index("ix_outbox_schema_7")
        table.create_index("ix_outbox_schema_6", ["paused_at"])

    with copied("outbox_email") as table:
        table.drop_index("ix_outbox_email_attention", **where("attention_at"))
        table.drop_index("ix_outbox_email_tag", **where("tag"))
        table.create_index("ix_outbox_email_tag", ["tag"], **where("tag"))
        table.drop_column("redacted_at")
        table.drop_column("redact")
        table.drop_column("attention_at")

    with copied("outbox_content") as table:
        table.drop_index("ix_outbox_content_subject", **where("subject"))
        table.drop_column("redacted_at")
        table.drop_column("subject")
        table.drop_column("key_id")
