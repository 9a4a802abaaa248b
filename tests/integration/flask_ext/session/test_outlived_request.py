"""An app context that is pushed before the request outlives it, and with it the session."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from flask.testing import FlaskClient
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import scoped_session, sessionmaker

from outbox import Outbox
from tests.support.shop.shop import message

pytestmark = [pytest.mark.each_database, pytest.mark.matrix]

LEFT = "the request has ended, and its session is still open with {}: the app context was there"
_outbox = Outbox()


def on_flask_sqlalchemy(app: Flask, url: str) -> Any:
    app.config["SQLALCHEMY_DATABASE_URI"] = url
    db = SQLAlchemy(app)
    _outbox.init_app(app, db=db)
    with app.app_context():
        db.create_all()
    return db.session


def on_sqlalchemy(app: Flask, url: str) -> Any:
    engine = sa.create_engine(url)
    metadata, session = sa.MetaData(), scoped_session(sessionmaker(engine))
    _outbox.init_app(app, session=session, metadata=metadata, engine=engine)
    app.teardown_appcontext(lambda _: session.remove())
    metadata.create_all(engine)
    return session


@pytest.fixture(params=[on_flask_sqlalchemy, on_sqlalchemy])
def app(request: pytest.FixtureRequest, database_url: str) -> Iterator[Flask]:
    app = Flask("shop")
    app.config["MAIL_DEFAULT_SENDER"] = "shop@shop.example"
    made: Callable[[Flask, str], Any] = request.param
    session = made(app, database_url)

    @app.get("/<what>")
    def view(what: str) -> str:
        if what != "look":
            _outbox.enqueue(message())
        if what in ("commit", "rollback"):
            getattr(session, what)()
        if what == "fail":
            raise RuntimeError
        return ""

    yield app
    session.remove() if made is on_sqlalchemy else None
    app.extensions["outbox"].runtime.database.engine.dispose()


@pytest.fixture
def client(app: Flask) -> Iterator[FlaskClient]:
    """A browser whose requests are within a context that was pushed before."""
    with app.app_context():
        yield app.test_client()


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [one.getMessage() for one in caplog.records if one.name == "outbox"]
    caplog.clear()
    return [one.removeprefix("outbox: ") for one in lines]


def test_a_request_that_failed_is_told_before_another_ones_commit_sends_its_email(
    client: FlaskClient, caplog: pytest.LogCaptureFixture
) -> None:
    client.get("/fail")
    [line] = told(caplog)
    assert line.startswith(LEFT.format("1 email"))
    client.get("/look")
    assert told(caplog) == []  # it was told
    client.get("/open")
    [line] = told(caplog)
    assert line.startswith(LEFT.format("2 emails"))
    client.get("/commit")
    assert told(caplog) == []
    client.get("/look")
    assert len(_outbox.list().emails) == 3
    assert told(caplog) == []


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_request_that_ends_its_transaction_is_told_nothing(
    client: FlaskClient, caplog: pytest.LogCaptureFixture, end: str
) -> None:
    client.get(f"/{end}")
    assert told(caplog) == []


def test_a_function_behind_the_request_may_end_it(
    app: Flask, client: FlaskClient, caplog: pytest.LogCaptureFixture
) -> None:
    app.teardown_request(lambda _: app.extensions["outbox"].source.rollback())
    client.get("/fail")
    assert told(caplog) == []


@pytest.mark.long
def test_a_request_with_a_context_of_its_own_has_lost_what_it_gave_up(
    app: Flask, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    app.test_client().get("/fail")
    [line] = told(caplog)
    assert line.startswith("1 email was discarded: the session was closed without a commit")
