"""A listener that sends what was committed comes too late; one before the commit does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from flask_mail import Message
from flask_sqlalchemy import SQLAlchemy
from flask_sqlalchemy.track_modifications import before_models_committed, models_committed

from outbox import ConfigurationError, OutboxMail
from tests.support.shop.shop import Shop, Shops, message

pytestmark = pytest.mark.each_database

Send = Callable[..., None]
Listen = Callable[[Shop, SQLAlchemy, Send], object]

TOO_LATE: dict[str, Listen] = {
    "after_commit": lambda _, db, send: sa.event.listen(db.session, "after_commit", send),
    "models_committed": lambda shop, _, send: models_committed.connect(send, shop.app),
}
IN_TIME: dict[str, Listen] = {
    "before_commit": lambda _, db, send: sa.event.listen(db.session, "before_commit", send),
    "before_models_committed": lambda shop, _, send: before_models_committed.connect(
        send, shop.app
    ),
}


def opened(shops: Shops, **config: Any) -> tuple[Shop, SQLAlchemy, OutboxMail]:
    tracked = {"MAIL_SUPPRESS_SEND": False, "SQLALCHEMY_TRACK_MODIFICATIONS": True}
    shop, db = shops.open_flask(**tracked | config)
    return shop, db, OutboxMail(shop.app)


def place_order(shop: Shop, db: SQLAlchemy) -> None:
    order = type("Order", (db.Model,), {"__table__": shop.orders})
    db.session.add(order(customer="Ada"))
    db.session.commit()


def letter() -> Message:
    return Message("Order 1", ["ada@x.example"], "Thank you.", sender="shop@shop.example")


@pytest.mark.parametrize("autocommits", [False, True], ids=["", "autocommit"])
@pytest.mark.parametrize("name", TOO_LATE)
def test_behind_the_commit_the_remedy_is_told(name: str, autocommits: bool, shops: Shops) -> None:
    shop, db, mail = opened(shops, OUTBOX_MAIL_AUTOCOMMIT=autocommits)

    def send(*_: object, **__: object) -> None:
        mail.send(letter())

    TOO_LATE[name](shop, db, send)
    with shop.app.app_context():
        with pytest.raises(ConfigurationError, match="before_commit"):
            place_order(shop, db)
        db.session.remove()
    assert (shop.count(shop.orders), shop.count(shop.tables.email)) == (1, 0)


@pytest.mark.parametrize("name", IN_TIME)
def test_before_the_commit_it_is_one_commit(name: str, shops: Shops) -> None:
    shop, db, mail = opened(shops)

    def send(*_: object, **__: object) -> None:
        mail.send(letter())

    IN_TIME[name](shop, db, send)
    with shop.app.app_context():
        place_order(shop, db)
    assert (shop.count(shop.orders), shop.count(shop.tables.email)) == (1, 1)


def test_behind_the_commit_another_session_takes_the_email(shop: Shop) -> None:
    def send(_: object) -> None:
        with shop.session() as other:
            shop.outbox.enqueue(message(), session=other)
            other.commit()

    with shop.session() as session:
        sa.event.listen(session, "after_commit", send)
        shop.order(session)
        session.commit()
    assert (shop.count(shop.orders), shop.count(shop.tables.email)) == (1, 1)
