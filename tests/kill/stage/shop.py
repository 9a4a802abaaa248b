"""The shop that dies: its app, its six emails, and what a look from outside sees of them.

Every process of these tests builds it from one configuration. Its clocks stand still between two
leaps: whatever is waited for comes at once, and no timing decides which step is the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from functools import cached_property
from math import inf
from typing import Any

import sqlalchemy as sa
from celery import Celery
from flask import Flask
from sqlalchemy.orm import scoped_session, sessionmaker

from outbox import Outbox
from outbox.domain.config.enqueue_options import Redact
from outbox.store.control.counter import TASK
from outbox.worker.fold import FOLD
from outbox.worker.process.runtime import Runtime
from tests.support.celery_app import make_celery
from tests.support.shop.parts import Parts

LEASE = 90.0
"""Longer than these processes live: no renewal comes in between. The clock leaps past it."""

WINDOW = 2

Config = Mapping[str, Any]
Standing = dict[str, tuple[str, str]]
"""By recipient: the status of the email, and what has become of this recipient."""


@dataclass(kw_only=True)
class Shop(Parts):
    """A shop with a broker."""

    celery: Celery

    @cached_property
    def observer(self) -> sa.Engine:
        """Another engine on the same database: what looks on is no part of what is looked at."""
        return sa.create_engine(self.engine.url)

    def stop_clocks(self, offset: float = 0.0) -> None:
        """Have the host's clock, and the database's but for its running, move by leaps only."""
        database = self.runtime.database
        database.offset = offset
        self.runtime.clock = lambda: database.offset
        self.runtime.random = lambda: 0.5

    def standing(self) -> Standing:
        """Return how each recipient stands, as it is committed."""
        email, recipient = self.runtime.tables.email, self.runtime.tables.recipient
        statement = sa.select(
            sa.func.coalesce(recipient.c.address, email.c.recipient),
            email.c.status,
            sa.func.coalesce(recipient.c.status, email.c.status),
        ).select_from(email.outerjoin(recipient, recipient.c.email_id == email.c.id))
        with self.observer.connect() as connection:
            return {row[0]: (row[1], row[2]) for row in connection.execute(statement)}

    def crashes(self) -> int:
        """Return how many crashes are charged to all emails together."""
        with self.observer.connect() as connection:
            charged = sa.select(sa.func.sum(self.runtime.tables.email.c.crashes))
            return int(connection.execute(charged).scalar() or 0)

    def is_unleased(self) -> bool:
        """Whether nobody holds a lease."""
        with self.observer.connect() as connection:
            return not connection.execute(sa.select(self.runtime.tables.lease.c.token)).all()

    def is_at_rest(self) -> bool:
        """Whether nothing is due, now or later, and nobody holds a lease."""
        under_way = {"pending", "claimed", "sending"}
        standing = self.standing().values()
        return self.is_unleased() and not under_way & {status for status, _ in standing}

    def dispose(self) -> None:
        self.runtime.disconnect()
        self.engine.dispose()
        self.observer.dispose()


def build(config: Config) -> Shop:
    """Build the app. It connects to nothing yet."""
    app = Flask("shop")
    app.config.update({key: value for key, value in config.items() if key.isupper()})
    celery = make_celery(app, config["broker"])
    metadata, outbox, engine = sa.MetaData(), Outbox(), sa.create_engine(config["database"])
    orders = sa.Table(
        "orders",
        metadata,
        sa.Column("customer", sa.String(50), primary_key=True),
        mysql_engine="InnoDB",
    )
    sessions = sessionmaker(engine)
    outbox.init_app(app, session=scoped_session(sessions), metadata=metadata, engine=engine)
    return Shop(
        app=app, celery=celery, outbox=outbox, engine=engine, orders=orders, sessions=sessions
    )


def stop_clock(runtime: Runtime) -> None:
    """Have its process do nothing of what is due now and then: its points would depend on that."""
    runtime.clock = lambda: 0.0
    for what in (FOLD, TASK):
        runtime.seldom.is_due(what, 1.0)  # never again, as the clock stands still
    runtime.job_pace.looks_again_at = inf


def message(*to: str, text: str = "Thank you.\n") -> EmailMessage:
    """Return an email of the shop."""
    mail = EmailMessage()
    mail["From"], mail["To"] = "shop@shop.example", ", ".join(to)
    mail["Subject"] = "Your order"
    mail.set_content(text)
    return mail


BATCH = (
    ("plain@one.example",),
    ("large@two.example",),
    ("taken@three.example", "refused@three.example", "later@four.example"),
    ("first@five.example", "second@five.example", "third@five.example"),
    ("unwanted@six.example",),
    ("last@seven.example",),
)
"""The recipients of each email. What the server says to them is in their names: see `ledger`."""


REDACTED = ("taken@three.example", "unwanted@six.example")
"""The first recipients of the emails whose bodies go with their ends."""


def enqueue_batch(shop: Shop) -> None:
    """Commit the six emails, one of them over two blocks of a write."""
    with shop.app.app_context(), shop.sessions() as session:
        for recipients in BATCH:
            large = recipients[0].startswith("large")
            text = "All the terms and conditions.\n" * 3000 if large else "Thank you.\n"
            letter = message(*recipients, text=text)
            redact: Redact | None = "when sent" if recipients[0] in REDACTED else None
            shop.outbox.enqueue(letter, session=session, redact=redact)
        session.commit()
