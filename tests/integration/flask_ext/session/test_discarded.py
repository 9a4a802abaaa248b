"""Who forgot the commit: a discarded email's line names its view, task or command."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from celery import Celery
from flask import Flask, request
from flask_sqlalchemy import SQLAlchemy

from outbox import Outbox
from tests.support.shop.shop import message

pytestmark = pytest.mark.one_database("sqlite")


@pytest.fixture
def app(tmp_path: Path) -> Flask:
    """An app whose view, command and task enqueue and do not commit."""
    app, db = Flask("shop"), SQLAlchemy()
    app.config["SQLALCHEMY_DATABASE_URI"] = f"sqlite:///{tmp_path}/shop.db"
    db.init_app(app)
    outbox = Outbox(app, db=db)
    with app.app_context():
        db.create_all()

    @app.post("/orders", endpoint="orders.place")
    def place() -> str:
        outbox.enqueue(message("secret@x.example"))
        outbox.enqueue(message("secret@x.example"))
        return ""

    @app.post("/orders/cancel", endpoint="orders.cancel")
    def cancel() -> str:
        assert outbox.cancel(tag="secret") == 2
        if request.args.get("commit"):
            db.session.commit()
        if request.args.get("rollback"):
            db.session.rollback()
        return ""

    @app.post("/orders/paid", endpoint="orders.paid")
    def paid() -> str:
        outbox.enqueue(message("secret@x.example"), tag="secret")
        outbox.enqueue(message("secret@x.example"), tag="secret")
        db.session.commit()
        return ""

    @app.cli.command("remind")
    def remind() -> None:
        outbox.enqueue(message("secret@x.example"))

    celery = Celery("shop", broker="memory://", set_as_current=False)
    app.extensions["celery"] = celery

    @celery.task(name="shop.remind", shared=False)
    def task() -> None:
        with app.app_context():
            outbox.enqueue(message("secret@x.example"))

    return app


@pytest.mark.parametrize(
    ("way", "origin", "emails"),
    [
        ("view", "the view orders.place", 2),
        ("task", "the task shop.remind", 1),
        ("command", "the command shop remind", 1),
    ],
)
def test_the_line_names_the_view_the_task_or_the_command(
    app: Flask, caplog: pytest.LogCaptureFixture, way: str, origin: str, emails: int
) -> None:
    match way:
        case "view":
            assert app.test_client().post("/orders").status_code == 200
        case "task":
            app.extensions["celery"].tasks["shop.remind"].apply().get()
        case _:
            assert app.test_cli_runner().invoke(args=["remind"]).exit_code == 0
    [record] = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert record.getMessage().endswith(f"otherwise call its commit() after enqueue in {origin}")
    values = {"event": "emails_discarded", "emails": emails, "origin": origin}
    assert record.outbox == values  # type: ignore[attr-defined]
    assert "secret" not in caplog.text


def test_the_line_names_the_view_that_withdrew_emails_and_did_not_commit(
    app: Flask, caplog: pytest.LogCaptureFixture
) -> None:
    """Those emails go out, though `cancel` has returned how many it withdrew."""
    client = app.test_client()
    client.post("/orders/paid")
    client.post("/orders/cancel?rollback=1")
    assert caplog.text == ""
    client.post("/orders/cancel")
    [record] = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert record.getMessage().startswith("outbox: 2 emails are not withdrawn after all: ")
    assert record.getMessage().endswith("call its commit() after cancel in the view orders.cancel")
    values = {"event": "cancellations_discarded", "emails": 2, "origin": "the view orders.cancel"}
    assert record.outbox == values  # type: ignore[attr-defined]
    assert "secret" not in caplog.text
    caplog.clear()
    client.post("/orders/cancel?commit=1")
    assert caplog.text == ""
