"""The table of erased people: what remains of an address, so that no email goes there again."""

from __future__ import annotations

from sqlalchemy import Column, MetaData, String, Table

from ..encryption.tombstones import SECRET_ID_LENGTH
from .clock import MOMENT
from .column_types import DIGEST, TABLE_OPTIONS


def erased(metadata: MetaData) -> Table:
    """Return the tombstones: keyed digests of erased addresses. Without the key they tell nothing.

    `secret_id` tells under which secret a digest was made: under another one nobody finds it.
    """
    return Table(
        "outbox_erased",
        metadata,
        Column("digest", DIGEST, primary_key=True),
        Column("secret_id", String(SECRET_ID_LENGTH), nullable=False),
        Column("erased_at", MOMENT, nullable=False),
        **TABLE_OPTIONS,
    )
