"""Celery's `task_always_eager`, as some apps have it in development: it works without a broker."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from celery import Celery
from flask import Flask
from flask_mail import Message
from flask_sqlalchemy import SQLAlchemy

from outbox import Outbox
from outbox.testing import OutboxTester
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops, addresses, newsletter
from tests.support.waiting import wait_until

NOWHERE = "redis://127.0.0.1:1/0"


def eager(app: Flask) -> Celery:
    """Give the app a Celery app whose broker nobody could reach."""
    celery = Celery("shop", broker=NOWHERE)
    celery.conf.task_always_eager = True
    app.extensions["celery"] = celery
    return celery


@pytest.mark.one_database("postgresql")
def test_a_commit_sends_off_the_requests_thread(sending: Shop, catcher: Catcher) -> None:
    eager(sending.app)
    swept, nudge = threading.Event(), sending.runtime.nudge
    publish = nudge._publish

    def noted() -> bool:
        is_taken = publish()
        swept.set()
        return is_taken

    nudge._publish = noted
    sending.enqueue("ada@x.example")
    wait_until(swept.is_set, 20, "the sweep after the commit")
    assert sending.statuses() == ["sent"]
    assert [one.recipients for one in catcher.emails] == [("ada@x.example",)]


@pytest.mark.one_database("sqlite")
def test_the_sweep_sends_all_without_a_broker(shops: Shops, catcher: Catcher) -> None:
    config = {"OUTBOX_BATCH": 10, "OUTBOX_WINDOW": 5, "OUTBOX_NUDGE": False}
    shop = shops.open(MAIL_PORT=catcher.port, **config)
    celery = eager(shop.app)
    with shop.session() as session:
        shop.outbox.enqueue_many(newsletter(), addresses(100), session=session)
        session.commit()
    celery.tasks["outbox.sweep"].delay()
    assert shop.statuses() == ["sent"] * 100


@pytest.mark.one_database("sqlite")
def test_under_testing_nothing_is_touched(shops: Shops) -> None:
    shop = shops.open(TESTING=True)
    eager(shop.app)
    shop.runtime.publish_sweep()  # nor is a broker asked
    with OutboxTester(shop.app) as tester:
        shop.enqueue("ada@x.example")
        assert tester.assert_enqueued().status == "pending"
        assert len(tester.drain()) == 1


@pytest.mark.one_database("sqlite")
def test_a_database_in_memory_is_left_to_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    swept: list[Any] = []
    app, db, outbox = Flask("shop"), SQLAlchemy(), Outbox()
    app.config["SQLALCHEMY_DATABASE_URI"] = "sqlite://"
    db.init_app(app)
    outbox.init_app(app, db=db)
    celery = eager(app)
    monkeypatch.setattr(celery.tasks["outbox.sweep"], "apply", lambda **_: swept.append(1))
    with app.app_context():
        db.create_all()
        app.extensions["outbox"].runtime.publish_sweep()
        outbox.enqueue(Message("x", ["a@x.example"], "x", sender="s@x.example"))
        db.session.commit()
        assert outbox.counts() == {"pending": 1}
    assert swept == []


@pytest.mark.one_database("sqlite")
def test_check_and_sweep_say_so(shops: Shops) -> None:
    shop = shops.open(TESTING=True)
    eager(shop.app)
    run = runner(shop)
    assert "task_always_eager is on: no worker sends" in run("check", code=1).output
    assert "flask outbox drain sends" in run("sweep", code=1).output
