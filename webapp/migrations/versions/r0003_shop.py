"""The shop's own tables, and its goods."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0003"
down_revision = "r0002"

GOODS = (
    ("notebook", "Ruled notebook", "160 pages that take ink without bleeding.", 1450),
    ("pen", "Fountain pen", "Steel nib, medium. Refills from any bottle.", 3900),
    ("ink", "Iron-gall ink", "Goes on blue, dries black, stays for centuries.", 1280),
    ("envelopes", "Lined envelopes", "Twenty-five, gummed, with a tissue lining.", 950),
    ("cards", "Correspondence cards", "Heavy cotton paper for the short answer.", 1600),
    ("wax", "Sealing wax", "Four sticks in post-office red.", 740),
)
"""The goods of the first day: slug, name, blurb, and the price in cents."""


def upgrade() -> None:
    """Make the tables, and fill the shelves."""
    _make_products()
    _make_orders()
    _make_password_resets()
    _make_newsletters()


def downgrade() -> None:
    """Remove the tables."""
    op.drop_table("shop_newsletter")
    op.drop_table("shop_password_reset")
    op.drop_table("shop_order")
    op.drop_table("shop_product")


def _make_products() -> None:
    products = op.create_table(
        "shop_product",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("slug", sa.String(40), nullable=False),
        sa.Column("name", sa.String(80), nullable=False),
        sa.Column("blurb", sa.String(200), nullable=False),
        sa.Column("price", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("slug"),
    )
    columns = ("slug", "name", "blurb", "price")
    op.bulk_insert(products, [dict(zip(columns, goods, strict=True)) for goods in GOODS])


def _make_orders() -> None:
    op.create_table(
        "shop_order",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("checkout", sa.String(36), nullable=False),
        sa.Column("product_id", sa.Integer(), nullable=False),
        sa.Column("quantity", sa.Integer(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(80), nullable=False),
        sa.Column("email", sa.String(320), nullable=False),
        sa.Column("placed_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["product_id"], ["shop_product.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("checkout"),
    )


def _make_password_resets() -> None:
    op.create_table(
        "shop_password_reset",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("request", sa.String(36), nullable=False),
        sa.Column("email", sa.String(320), nullable=False),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("request"),
    )


def _make_newsletters() -> None:
    op.create_table(
        "shop_newsletter",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("draft", sa.String(36), nullable=False),
        sa.Column("subject", sa.String(200), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("readers", sa.Integer(), nullable=False),
        sa.Column("posted_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("draft"),
    )
