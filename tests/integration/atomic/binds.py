"""An app with two databases, and what it writes to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

import sqlalchemy as sa
from flask import Flask
from flask_sqlalchemy import SQLAlchemy

from outbox import Outbox
from tests.support.shop.shop import message

APART = "two commits"


@dataclass
class Binds:
    """An app with a default database and the bind "shop"; the outbox is on one of them."""

    app: Flask
    db: SQLAlchemy
    outbox: Outbox
    default: sa.Table
    shop: sa.Table

    def count(self, table: sa.Table) -> int:
        """Return how many committed rows the table has."""
        with self.db.engines[table.metadata.info["bind_key"]].connect() as connection:
            return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()

    def emails(self) -> int:
        return sum(self.outbox.counts().values())

    def order(self, customer: str = "Ada", *, on: sa.Table | None = None) -> None:
        """Write an order to the bind "shop", or to another table."""
        chosen = self.shop if on is None else on
        self.db.session.execute(sa.insert(chosen).values(customer=customer))


Opened = Callable[..., Binds]
Step = Callable[[Binds], None]


def ordered(binds: Binds) -> None:
    binds.order(uuid4().hex)


def enqueued(binds: Binds) -> None:
    binds.outbox.enqueue(message())


def kept(binds: Binds, step: Step) -> None:
    """Take the step in a savepoint that is released, and commit."""
    with binds.db.session.begin_nested():
        step(binds)
    binds.db.session.commit()
