"""A small shop with an outbox on a fresh database, where no step off the lifecycle is possible."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.message import EmailMessage
from functools import lru_cache
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from outbox import Email, Outbox, Priority
from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.status import Status
from outbox.domain.delivery.transaction import Phase, Reply, Verdict
from outbox.store.connection.database import Database
from outbox.store.control import counter
from outbox.store.records import Batch, Claim, EmailResult
from outbox.store.schema.tables import Tables
from outbox.store.transitions.rescue import rescue
from outbox.store.transitions.start import start
from outbox.store.transitions.window import advance
from outbox.worker.process.retry_writes import GRACE
from tests.support.shop import schema
from tests.support.shop.parts import Parts
from tests.support.shop.shared_tables import SharedTables, end
from tests.support.shop.steps.claims import claim_batch

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
WORKER = "host:1"
LEASE = 30.0


def message(
    *to: str, subject: str = "Order 1", text: str = "Thank you.", **headers: str
) -> EmailMessage:
    """Return an email of the shop to these addresses, or to one customer."""
    return _own(_written(to or ("a@customers.example",), subject, text, tuple(headers.items())))


@lru_cache(maxsize=64)
def _written(
    to: tuple[str, ...], subject: str, text: str, headers: tuple[tuple[str, str], ...]
) -> EmailMessage:
    """Write it once: to parse each header takes longer than many a test's own work."""
    mail = EmailMessage()
    mail["From"] = "shop@shop.example"
    mail["To"] = ", ".join(to)
    mail["Subject"] = subject
    for name, value in headers:
        mail[name] = value
    mail.set_content(text)
    return mail


def _own(written: EmailMessage) -> EmailMessage:
    """Return a message of the test's own: what is in its lists, and beside them, is text."""
    mail = copy(written)
    mail._headers, mail.defects = list(written._headers), []  # type: ignore[attr-defined]
    return mail


def newsletter(text: str = "New ink!") -> EmailMessage:
    """Return a content without recipients."""
    mail = EmailMessage()
    mail["From"] = "shop@shop.example"
    mail["Subject"] = "News"
    mail.set_content(text)
    return mail


def addresses(count: int) -> list[str]:
    """Return the addresses of so many readers."""
    return [f"r{number:05}@readers.example" for number in range(count)]


def entry(email_id: int, outcome: Outcome, verdict: Verdict, **changes: Any) -> EmailResult:
    """Return the result of one email's transaction."""
    values: dict[str, Any] = {
        "phase": Phase.DOT,
        "several": False,
        "server": "mx.example:25",
        "started_at": START.timestamp(),
        "finished_at": START.timestamp(),
    }
    return EmailResult(email_id=email_id, outcome=outcome, verdict=verdict, **values | changes)


def sent(email_id: int) -> EmailResult:
    """Return the result of an email that the server took."""
    reply = Reply(code=250, enhanced="2.0.0", text="queued as 1")
    return entry(email_id, Outcome(status=Status.SENT, reply=reply, attempts_added=1), Verdict.SENT)


@dataclass(kw_only=True)
class Shop(Parts):
    """What a test does with its shop, and what it looks at."""

    redacting: set[int] = field(default_factory=set)  # a worker knows it from the claimed email

    @property
    def database(self) -> Database:
        return self.runtime.database

    @property
    def tables(self) -> Tables:
        return self.runtime.tables

    @contextmanager
    def session(self) -> Iterator[Session]:
        with self.sessions() as session:
            yield session

    def order(self, session: Session, customer: str = "Ada") -> None:
        session.execute(sa.insert(self.orders).values(customer=customer))

    def enqueue(self, *to: str, **options: Any) -> Email:
        """Enqueue an email and commit."""
        with self.session() as session:
            email = self.outbox.enqueue(message(*to), session=session, **options)
            session.commit()
        if options.get("redact"):
            self.redacting.add(email.id)
        return email

    def count(self, table: sa.Table) -> int:
        """Return how many committed rows a table has."""
        with self.engine.connect() as connection:
            return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()

    def rows(self, table: sa.Table, *where: Any) -> Sequence[sa.Row[Any]]:
        """Return the committed rows of a table in the order of its key."""
        with self.engine.connect() as connection:
            statement = sa.select(table).where(*where).order_by(*table.primary_key)
            return connection.execute(statement).all()

    def email_row(self, email_id: int) -> sa.Row[Any]:
        return self.rows(self.tables.email, self.tables.email.c.id == email_id)[0]

    def values(self, email_id: int) -> dict[str, Any]:
        """Return an email's row as it can be inserted: without what the database computes."""
        row = self.email_row(email_id)._asdict()
        return {
            name: row[name] for name, column in self.tables.email.c.items() if not column.computed
        }

    def status(self, email_id: int) -> Status:
        return Status(self.email_row(email_id).status)

    def statuses(self) -> list[str]:
        return [row.status for row in self.rows(self.tables.email)]

    def recipients(self, email_id: int) -> dict[str, str]:
        """Return what became of each recipient of an email that has several."""
        table = self.tables.recipient
        return {row.address: row.status for row in self.rows(table, table.c.email_id == email_id)}

    def counter(self, name: str) -> int:
        return self.database.run(lambda c: counter.read(c, self.database)).get(name, 0)

    def later(self, seconds: float) -> None:
        """Move the database's clock."""
        self.database.offset += seconds

    def claim(self, limit: int = 100, priority: Priority = Priority.NORMAL) -> list[Claim]:
        return claim_batch(self.database, priority, limit, lease_seconds=LEASE)

    def start(self, token: UUID) -> Batch | None:
        return start(self.database, token, lease_seconds=LEASE, worker=WORKER)

    def started(self) -> Claim:
        """Claim what is due as one batch and start its lease."""
        (made,) = self.claim()
        assert self.start(made.token) is not None
        return made

    def open(self, token: UUID, *ids: int) -> frozenset[int]:
        """Open the window of these emails."""
        return self.record(token, [], ids)

    def record(
        self, token: UUID, results: Sequence[EmailResult], following: Sequence[int] = ()
    ) -> frozenset[int]:
        """Record results and open the next window."""
        if self.redacting:
            results = [replace(one, redact=one.email_id in self.redacting) for one in results]
        return advance(self.database, token, results, following, worker=WORKER).opened

    def sending(self, email_id: int) -> Claim:
        """Bring an email that is due alone into an open window."""
        made = self.started()
        assert self.open(made.token, email_id) == {email_id}
        return made

    def rescue(self) -> int:
        """Let the running leases end, see them expired, wait one lease more, and judge."""
        self.later(LEASE + 1)
        judged = rescue(self.database, self.runtime.settings, random=lambda: 0.5).leases
        self.later(LEASE + 1)
        return judged + rescue(self.database, self.runtime.settings, random=lambda: 0.5).leases

    def lose(self, email_id: int) -> Claim:
        """Lose the worker while the email's window is open; wait until the email is due again."""
        made = self.sending(email_id)
        assert self.rescue() == 1
        self.later(86_400)
        return made


@dataclass(kw_only=True)
class Shops:
    """Opens shops on one database and closes them."""

    url: str
    has_tables: bool = False  # somebody knows it: to look takes longer than to enqueue an email
    shared: SharedTables = field(default_factory=SharedTables)
    opened: list[Shop] = field(default_factory=list)

    def open(self, **config: Any) -> Shop:
        shop = self.open_on(self.shared.engine(self.url), **config)
        self.shared.lend(shop.runtime)
        return shop

    def open_on(self, engine: sa.Engine, **config: Any) -> Shop:
        """Open a shop on an engine of the test's own."""
        metadata, app, outbox = self.shared.metadata, _app(**config), Outbox()
        source = scoped_session(sessionmaker(engine))
        outbox.init_app(app, session=source, metadata=metadata, engine=engine)
        return self._prepare(app, outbox, engine, metadata)

    def open_flask(self, **config: Any) -> tuple[Shop, SQLAlchemy]:
        """Open a shop on Flask-SQLAlchemy."""
        given = config.pop("SQLALCHEMY_ENGINE_OPTIONS", {})
        options = {"execution_options": self.shared.options} | given
        app = _app(SQLALCHEMY_DATABASE_URI=self.url, SQLALCHEMY_ENGINE_OPTIONS=options, **config)
        db, outbox = SQLAlchemy(metadata=self.shared.metadata), Outbox()
        db.init_app(app)
        outbox.init_app(app, db=db)
        with app.app_context():
            return self._prepare(app, outbox, db.engine, db.metadata), db

    def _prepare(
        self, app: Flask, outbox: Outbox, engine: sa.Engine, metadata: sa.MetaData
    ) -> Shop:
        orders, sessions = schema.orders(metadata), sessionmaker(engine)
        shop = Shop(app=app, outbox=outbox, engine=engine, orders=orders, sessions=sessions)
        self.opened.append(shop)
        if self.has_tables and engine.url == sa.make_url(self.url):
            engine.connect().close()
        elif not sa.inspect(engine).has_table("orders"):
            schema.create(metadata, engine)
        return shop

    def close(self) -> None:
        for shop in self.opened:
            assert shop.runtime.late_replies.wait(GRACE), "a thread still waits for a late reply"
            assert shop.runtime.unrecorded.wait(), (
                "a thread still writes results: it has no database"
            )
            assert shop.runtime.unended.wait(GRACE), "a thread still waits for a batch's end"
            beats_end()
            shop.runtime.disconnect()
            end(shop.runtime)
            shop.engine.dispose()
        self.shared.take_back()


def beats_end() -> None:
    """Wait for renewals under way: a connection that comes back later is closed by nobody."""
    for thread in threading.enumerate():
        if thread.name == "outbox-lease":
            thread.join(GRACE)


def _app(**config: Any) -> Flask:
    app = Flask("shop", static_folder=None)  # the rule for it would be compiled for each shop
    defaults = {"MAIL_SERVER": "127.0.0.1", "MAIL_PORT": 1, "OUTBOX_LEASE": LEASE}
    app.config.update(defaults | config)
    return app
