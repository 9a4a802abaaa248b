"""Looks for words in every row of the outbox's tables."""

from __future__ import annotations

import sqlalchemy as sa

from tests.support.shop.shop import Shop


def traces(shop: Shop, *words: str) -> set[str]:
    """Return the columns, as `table.column`, in which any of these words stands; case is ignored.

    Each column is looked at, whatever its type, as the database gives it.
    """
    wanted = [word.lower().encode() for word in words]
    with shop.engine.connect() as connection:
        return {
            f"{table.name}.{column}"
            for table in shop.tables.email.metadata.sorted_tables
            if table.name.startswith("outbox_")
            for row in connection.execute(sa.select(table)).mappings()
            for column, value in row.items()
            if any(word in _octets(value) for word in wanted)
        }


def _octets(value: object) -> bytes:
    octets = bytes(value) if isinstance(value, (bytes, memoryview)) else str(value).encode()
    return octets.lower()
