"""`app.extensions["mail"]`, by which other extensions send: it is the outbox's."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import flask_mail
import pytest
from flask import Flask, current_app
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import MetaData, create_engine, insert, select, text

from outbox import ConfigurationError, Outbox, OutboxMail
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.databases("sqlite")

Step = Callable[[Flask], object]


def drop_in(app: Flask) -> None:
    OutboxMail(app)


def factory(app: Flask) -> None:
    OutboxMail().init_app(app)


def flask_mails(app: Flask) -> None:
    flask_mail.Mail(app)


def nothing(app: Flask) -> None:
    """Leave the app as it is."""


def message(**fields: Any) -> flask_mail.Message:
    return flask_mail.Message("Order 1", recipients=["ada@x.example"], body="Thanks.", **fields)


def send() -> None:
    """Send as other extensions do."""
    current_app.extensions["mail"].send(message())


@pytest.fixture
def shop(shops: Shops, catcher: Catcher) -> Shop:
    return open_shop(shops, catcher)[0]


def open_shop(shops: Shops, catcher: Catcher, **config: Any) -> tuple[Shop, SQLAlchemy]:
    settings = {"MAIL_PORT": catcher.port, "MAIL_DEFAULT_SENDER": "shop@shop.example"}
    return shops.open_flask(**settings | config)


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize(
    "later", [nothing, drop_in, factory, flask_mails], ids=lambda s: s.__name__
)
@pytest.mark.parametrize("first", [nothing, drop_in, flask_mails], ids=lambda s: s.__name__)
def test_whatever_was_put_there_and_in_whichever_order_sending_enqueues(
    database_url: str, catcher: Catcher, first: Step, later: Step
) -> None:
    app, db, outbox = Flask("shop"), SQLAlchemy(), Outbox()
    app.config.update(
        MAIL_SERVER="127.0.0.1",
        MAIL_PORT=catcher.port,
        MAIL_DEFAULT_SENDER="shop@shop.example",
        SQLALCHEMY_DATABASE_URI=database_url,
    )
    db.init_app(app)
    first(app)
    outbox.init_app(app, db=db)
    later(app)
    with app.app_context():
        db.create_all()
        send()
        assert catcher.sessions == 0
        assert sum(outbox.counts().values()) == 1
        runtime = app.extensions["outbox"].runtime
        drain(runtime)
        runtime.disconnect()
        db.engine.dispose()
    (mail,) = catcher.emails
    assert mail.sender == "shop@shop.example"


def test_an_email_object_that_is_made_within_a_request_is_found_at_once(
    shop: Shop, catcher: Catcher, caplog: pytest.LogCaptureFixture
) -> None:
    with shop.app.test_request_context():
        flask_mail.Mail(shop.app)
        send()
    assert (shop.statuses(), catcher.sessions) == (["pending"], 0)
    told = [record for record in caplog.records if record.name == "outbox"]
    assert [record.levelno for record in told] == [logging.WARNING]
    assert "put OutboxMail in its place" in told[0].getMessage()


def test_flask_mails_own_object_is_refused_by_name(shop: Shop, catcher: Catcher) -> None:
    mail = flask_mail.Mail(shop.app)
    with shop.app.app_context(), pytest.raises(ConfigurationError, match=r"put outbox\.OutboxMail"):
        mail.send(message())
    assert (shop.statuses(), catcher.sessions) == ([], 0)


class Foreign:
    """Another extension's."""


def test_what_is_not_flask_mails_is_refused_by_name(shop: Shop) -> None:
    app = Flask("shop")
    app.extensions["mail"] = Foreign()
    with pytest.raises(ConfigurationError, match=r"test_mail_entry\.Foreign"):
        Outbox().init_app(app, metadata=MetaData(), engine=create_engine("sqlite://"))
    with pytest.raises(ConfigurationError, match=r"test_mail_entry\.Foreign"):
        OutboxMail(app)
    entry = shop.app.extensions["mail"]
    with pytest.raises(ConfigurationError, match=r"test_mail_entry\.Foreign"):
        shop.app.extensions["mail"] = Foreign()
    assert shop.app.extensions["mail"] is entry


def test_an_outbox_alone_gives_a_message_its_default_sender(shop: Shop) -> None:
    with shop.app.app_context():
        assert message().sender == "shop@shop.example"
        assert message(sender="desk@shop.example").sender == "desk@shop.example"


def test_the_entry_does_all_that_flask_mails_did(shop: Shop) -> None:
    with shop.app.app_context():
        entry = current_app.extensions["mail"]
        with entry.connect() as connection:
            connection.send(message())
            message().send(connection)
        entry.send_message("Order 2", recipients=["bo@x.example"])
        with entry.record_messages() as recorded:
            entry.send(message())
        assert len(recorded) == 1
    assert shop.statuses() == ["pending"] * 4
    with pytest.raises(ConfigurationError, match="would speak SMTP"):
        _ = OutboxMail(shop.app).server


WRITES: dict[str, Callable[[Shop, SQLAlchemy], object]] = {
    "a statement": lambda shop, db: db.session.execute(insert(shop.orders).values(customer="A")),
    "a text": lambda _, db: db.session.execute(text("UPDATE orders SET customer = 'B'")),
    "a connection": lambda shop, db: db.session.connection().execute(
        insert(shop.orders).values(customer="A")
    ),
    "the driver": lambda _, db: db.session.connection().exec_driver_sql("DELETE FROM orders"),
    "an outbox's email": lambda shop, _: shop.outbox.enqueue(message()),
    "a savepoint": lambda _, db: db.session.begin_nested(),
}


@pytest.mark.parametrize("kind", WRITES)
def test_an_email_commits_with_whatever_its_session_holds(
    shops: Shops, catcher: Catcher, kind: str
) -> None:
    shop, db = open_shop(shops, catcher)
    with shop.app.app_context():
        WRITES[kind](shop, db)
        send()
        assert shop.count(shop.tables.email) == 0
        db.session.rollback()
        assert shop.count(shop.tables.email) == 0
        WRITES[kind](shop, db)
        send()
        db.session.commit()
    assert "pending" in shop.statuses()


@pytest.mark.databases("postgresql")
def test_a_lock_that_the_session_took_is_not_released(shops: Shops, catcher: Catcher) -> None:
    shop, db = open_shop(shops, catcher)
    with shop.app.app_context():
        db.session.execute(select(shop.orders).with_for_update()).all()
        send()
        assert shop.count(shop.tables.email) == 0
        db.session.rollback()


def test_an_email_whose_session_has_only_read_is_committed(shops: Shops, catcher: Catcher) -> None:
    shop, db = open_shop(shops, catcher)
    with shop.app.app_context():
        db.session.execute(insert(shop.orders).values(customer="Ada"))
        db.session.commit()
        assert db.session.execute(select(shop.orders)).all()
        db.session.execute(text("SELECT 1"))
        send()
    assert shop.statuses() == ["pending"]


def test_a_write_before_a_savepoint_is_not_forgotten_at_its_begin(
    shops: Shops, catcher: Catcher
) -> None:
    """Given an order that is not committed, a savepoint that only read does not let it be."""
    shop, db = open_shop(shops, catcher)
    with shop.app.app_context():
        db.session.execute(insert(shop.orders).values(customer="Ada"))
        with db.session.begin_nested():
            db.session.execute(select(shop.orders)).all()
        send()
        db.session.rollback()
    assert shop.count(shop.orders) == shop.count(shop.tables.email) == 0


def test_a_savepoint_that_only_read_keeps_nothing_from_its_commit(
    shops: Shops, catcher: Catcher
) -> None:
    shop, db = open_shop(shops, catcher)
    with shop.app.app_context():
        db.session.execute(select(shop.orders)).all()
        with db.session.begin_nested():
            db.session.execute(select(shop.orders)).all()
        send()
    assert shop.statuses() == ["pending"]


@pytest.mark.matrix
@pytest.mark.databases("postgresql", "sqlite")
@pytest.mark.parametrize(
    ("statement", "kept"),
    [
        ("WITH RECURSIVE up(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM up WHERE n < 3)"
         " SELECT n FROM up", ["pending"]),
        ("/* who */ -- asks\n SELECT 1", ["pending"]),
        ("VALUES (1)", ["pending"]),
        ("WITH old AS (SELECT 1 AS n) DELETE FROM orders WHERE id IN (SELECT n FROM old)", []),
        ("/* SELECT */ DELETE FROM orders", []),
    ],
)  # fmt: skip
def test_a_read_is_known_by_what_it_does_and_not_by_its_first_word(
    shops: Shops, catcher: Catcher, statement: str, kept: list[str]
) -> None:
    shop, db = open_shop(shops, catcher)
    with shop.app.app_context():
        db.session.execute(text(statement))
        send()
        assert shop.statuses() == kept
        db.session.rollback()


def test_within_a_transaction_that_the_caller_began_an_email_waits_for_its_end(
    shops: Shops, catcher: Catcher
) -> None:
    shop, db = open_shop(shops, catcher)
    with shop.app.app_context():
        with db.session.begin():
            send()
            assert shop.count(shop.tables.email) == 0
        assert shop.count(shop.tables.email) == 1


def test_the_drop_in_commits_what_only_read_where_it_is_set_to(
    shops: Shops, catcher: Catcher
) -> None:
    shop, db = open_shop(shops, catcher, OUTBOX_MAIL_AUTOCOMMIT=True)
    mail = OutboxMail(shop.app)
    with shop.app.app_context():
        db.session.execute(select(shop.orders)).all()
        mail.send(message())
    assert shop.statuses() == ["pending"]


@pytest.mark.parametrize(
    ("config", "kept"),
    [({"TESTING": True}, 0), ({"MAIL_SUPPRESS_SEND": True}, 0),
     ({"TESTING": True, "MAIL_SUPPRESS_SEND": False}, 1)],
)  # fmt: skip
def test_what_is_suppressed_is_so_however_late_it_was_set(
    shop: Shop, config: dict[str, bool], kept: int
) -> None:
    shop.app.config.update(config)
    with shop.app.app_context():
        send()
        assert shop.count(shop.tables.email) == kept
        current_app.extensions["mail"].suppress = False
        send()
        current_app.extensions["mail"].suppress = True
        send()
    assert shop.count(shop.tables.email) == kept + 1
