"""Flask-SQLAlchemy knows a session by the address of its app context, which Python gives out anew.

A thread that pushes a context and ends leaves its session behind. A later context may get it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from threading import Thread

import pytest
from flask import Flask
from flask.ctx import AppContext
from flask_sqlalchemy import SQLAlchemy

from outbox import Outbox
from outbox.flask_ext.session.session_events import left_open
from tests.support.shop.shop import message

pytestmark = pytest.mark.each_database

db = SQLAlchemy()
outbox = Outbox()


@pytest.fixture
def app(database_url: str) -> Iterator[Flask]:
    app = Flask("shop")
    app.config["SQLALCHEMY_DATABASE_URI"] = database_url
    app.config["MAIL_DEFAULT_SENDER"] = "shop@shop.example"
    db.init_app(app)
    outbox.init_app(app, db=db)
    with app.app_context():
        db.create_all()
    yield app
    with app.app_context():
        db.engine.dispose()


def give_up(app: Flask) -> None:
    """Enqueue in a thread that pushes a context and ends, and commit nothing."""

    def work() -> None:
        app.app_context().push()
        outbox.enqueue(message())

    thread = Thread(target=work)
    thread.start()
    thread.join()
    gc.collect()


def next_context(app: Flask) -> AppContext:
    """Return a context that has the address of the one that is gone."""
    context, sessions = app.app_context(), db.session.registry.registry
    [address] = sessions
    sessions[id(context)] = sessions.pop(address)
    return context


@pytest.mark.parametrize("was_told", [False, True])
def test_the_next_request_does_not_commit_what_a_thread_gave_up(
    app: Flask, caplog: pytest.LogCaptureFixture, was_told: bool
) -> None:
    give_up(app)
    if was_told:  # say, behind a task
        [session] = db.session.registry.registry.values()
        assert left_open(session) == 1
    with next_context(app):
        assert "1 email was discarded" in caplog.text
        outbox.enqueue(message(), tag="own")
        db.session.commit()
    with app.app_context():
        assert [one.tag for one in outbox.list().emails] == ["own"]
        assert outbox.discarded == 1


def test_a_context_that_is_pushed_twice_keeps_its_session(
    app: Flask, caplog: pytest.LogCaptureFixture
) -> None:
    context = app.app_context()
    with context:
        outbox.enqueue(message())
        with context:
            db.session.commit()
            assert len(outbox.list().emails) == 1
    assert caplog.text == ""
