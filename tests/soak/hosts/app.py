"""The soak's own shop: an order and its emails in one transaction, which commits or does not.

`celery -A tests.soak.hosts.app worker` runs on each host. `tests.soak.hosts.web` makes the
requests.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Any

from celery import Celery
from flask import Flask, request
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import Column, Integer, String, Table
from sqlalchemy.exc import SQLAlchemyError

from outbox import Outbox
from tests.soak.hosts import hoard
from tests.soak.hosts.wire import BUSINESS, address
from tests.support.celery_app import make_celery

CONFIG = "SOAK_CONFIG"
"""The environment variable with Flask's configuration as JSON."""

JITTER = 0.1
"""Backoffs are drawn from the first tenth of each step: minutes show what else takes hours."""

_LINE = "Thank you for your order. We shall send it tomorrow.\n"


@dataclass(frozen=True)
class App:
    """A Flask app and its parts."""

    flask: Flask
    celery: Celery
    db: SQLAlchemy


def create_app(config: Mapping[str, Any]) -> App:
    """Return the shop; `REDIS_URL` in the configuration is Celery's broker."""
    flask = Flask(__name__)
    flask.config.update(config)
    celery = make_celery(flask, config["REDIS_URL"])
    db, outbox = SQLAlchemy(), Outbox()
    db.init_app(flask)
    outbox.init_app(flask, db=db)
    jitter = random.Random()
    flask.extensions["outbox"].runtime.random = lambda: JITTER * jitter.random()
    hoard.when_ready(flask, db)
    orders = Table(
        "soak_order",
        db.metadata,
        Column("reference", String(40), primary_key=True),
        Column("emails", Integer, nullable=False),
        Column("recipients", Integer, nullable=False),
        Column("policy", String(6), nullable=False),
        Column("sender", String(40), nullable=False),
        Column("octets", Integer, nullable=False),  # at least so many has each email
    )
    flask.add_url_rule("/orders", view_func=_Shop(db, outbox, orders).order, methods=["POST"])
    return App(flask, celery, db)


class _Shop:
    """The view: what it is asked to do comes as JSON, and it says what became of it."""

    def __init__(self, db: SQLAlchemy, outbox: Outbox, orders: Table) -> None:
        self._db = db
        self._outbox = outbox
        self._orders = orders

    def order(self) -> dict[str, str]:
        """Write an order and its emails; commit, roll back, or lose heart halfway."""
        wanted: dict[str, Any] = request.get_json()
        session = self._db.session
        try:
            self._write(wanted["reference"], wanted)
            if "given_up" in wanted:
                with session.begin_nested() as savepoint:
                    self._write(wanted["given_up"], wanted)
                    savepoint.rollback()
        except SQLAlchemyError:
            session.rollback()
            return {"outcome": "failed"}
        if wanted["end"] == "rollback":
            session.rollback()
            return {"outcome": "rolled back"}
        if wanted["end"] == "forget":  # the end of the request throws the session away
            return {"outcome": "rolled back"}
        try:
            session.commit()
        except SQLAlchemyError:
            session.rollback()
            return {"outcome": "unknown"}  # the reply to the commit may be what was lost
        return {"outcome": "committed"}

    def _write(self, reference: str, wanted: Mapping[str, Any]) -> None:
        emails, recipients, refused = wanted["emails"], wanted["recipients"], wanted["refused"]
        sender, octets, domains = wanted["sender"], wanted["octets"], wanted["domains"]
        row = {"emails": emails, "recipients": recipients, "policy": wanted["policy"]}
        row |= {"sender": sender, "octets": octets}
        self._db.session.execute(self._orders.insert().values(reference=reference, **row))
        options: dict[str, Any] = {"tag": reference, "priority": wanted["priority"]}
        options["on_unknown"] = wanted["policy"]
        message = EmailMessage()
        message["From"], message["Subject"] = sender, "Your order"
        message[BUSINESS] = reference
        message.set_content(_LINE * max(8, octets // len(_LINE) + 1))

        def to(number: int) -> str:
            return address(reference, number, refused, domains[number % len(domains)])

        if emails == 1:
            message["To"] = ", ".join(map(to, range(recipients)))
            self._outbox.enqueue(message, **options)
        else:
            self._outbox.enqueue_many(message, map(to, range(emails)), **options)


def __getattr__(name: str) -> Celery:
    """Make `app` when Celery asks for it: importing this module needs no environment."""
    if name in ("app", "celery"):
        app = create_app(json.loads(os.environ[CONFIG]))
        globals()[name] = app.celery
        return app.celery
    raise AttributeError(name)
