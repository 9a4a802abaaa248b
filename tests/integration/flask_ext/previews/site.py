"""An app in development that has previews, and a message to preview."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import finalize

from flask import Flask
from flask_mail import Message
from flask_sqlalchemy import SQLAlchemy
from werkzeug.test import TestResponse

from outbox import Outbox

HOSTILE = "<script>document.title='owned'</script>"
HTML = '<!doctype html><h1>Thank you</h1><img src="cid:logo" alt="Shop"><img src="cid:gone" alt="">'


def order_confirmation() -> Message:
    """Sent with each order.

    And no more.
    """
    made = Message(
        f"Your order {HOSTILE}",
        ["ada@x.example"],
        "Thank you & bye",
        html=HTML + HOSTILE,
        sender=("Käse & Co", "shop@shop.example"),
        bcc=["desk@shop.example"],
    )
    made.attach("logo.png", "image/png", b"\x89PNG", headers={"Content-ID": "<logo>"})
    return made


class Site:
    """An app in development, with an outbox and previews."""

    def __init__(self, **config: Any) -> None:
        self.outbox, self.db = Outbox(), SQLAlchemy()
        self.config = {"DEBUG": True, "SQLALCHEMY_DATABASE_URI": "sqlite://", **config}

    def app(self) -> Flask:
        app = Flask("shop")
        app.config.update(self.config)
        self.db.init_app(app)
        self.outbox.init_app(app, db=self.db)
        with app.app_context():
            self.db.create_all()
            finalize(app, self.db.engine.dispose)  # Python 3.13 warns of what is left open
        return app

    def show(self, function: Callable[[], Any], path: str = "/one", **options: Any) -> TestResponse:
        """Return the page of a function's preview."""
        self.outbox.preview("One", **options)(function)
        return self.get(path)

    def get(self, path: str = "") -> TestResponse:
        return self.app().test_client().get(f"/outbox/previews{path}")
