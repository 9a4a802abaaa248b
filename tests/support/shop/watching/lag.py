"""How far a rate's bucket is behind."""

from __future__ import annotations

from sqlalchemy import select

from outbox.store.schema.clock import utc
from tests.support.shop.shop import Shop


def lag(shop: Shop, name: str) -> float:
    """Return the seconds until a bucket is open."""
    bucket = shop.tables.bucket
    with shop.engine.connect() as connection:
        statement = select(bucket.c.tat, shop.database.now().label("now"))
        row = connection.execute(statement.where(bucket.c.name == name)).one()
    return (utc(row.tat) - utc(row.now)).total_seconds()
