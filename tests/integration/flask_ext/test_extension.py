"""The extension on Flask-SQLAlchemy and on plain SQLAlchemy, and the drop-in for Flask-Mail."""

from __future__ import annotations

import gc
import logging
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import flask_mail
import pytest
from celery.signals import worker_process_init
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import MetaData, create_engine, insert, select
from sqlalchemy.orm import scoped_session, sessionmaker
from sqlalchemy.pool import QueuePool

from outbox import ConfigurationError, Outbox, OutboxMail, Status
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops, addresses, message, newsletter

pytestmark = pytest.mark.one_database("postgresql")

SENDER = {"MAIL_DEFAULT_SENDER": "shop@shop.example"}


def mail_to(*to: str) -> flask_mail.Message:
    return flask_mail.Message("Order 1", recipients=list(to or ("a@x.example",)), body="Thanks")


def on_flask(shops: Shops, **config: object) -> tuple[Shop, SQLAlchemy, OutboxMail]:
    shop, db = shops.open_flask(**SENDER, **config)
    return shop, db, OutboxMail(shop.app)


def test_on_flask_sqlalchemy_an_email_commits_with_the_request(
    shops: Shops, catcher: Catcher
) -> None:
    shop, db = shops.open_flask(MAIL_PORT=catcher.port)
    with shop.app.app_context():
        db.session.execute(insert(shop.orders).values(customer="Ada"))
        shop.outbox.enqueue(message())
        shop.outbox.enqueue_many(newsletter(), addresses(3))
        db.session.commit()
        shop.outbox.enqueue(message())
        db.session.rollback()
        assert shop.outbox.counts() == {Status.PENDING: 4}
    drain(shop.runtime)
    assert len(catcher.emails) == 4
    assert shop.count(shop.orders) == 1


def test_on_plain_sqlalchemy_the_session_comes_from_its_source(shop: Shop) -> None:
    shop.outbox.enqueue(message())
    state = shop.app.extensions["outbox"]
    state.source().commit()
    assert shop.outbox.cancel(id=1) == 1
    state.source().commit()
    state.source.remove()
    assert shop.status(1) is Status.CANCELLED


def test_a_scoped_session_may_be_given(shop: Shop) -> None:
    sessions = scoped_session(sessionmaker(shop.engine))
    shop.outbox.enqueue(message(), session=sessions)
    sessions.commit()
    sessions.remove()
    assert shop.count(shop.tables.email) == 1


@pytest.mark.databases("sqlite")
def test_an_outbox_without_a_session_source_asks_for_one(database_url: str) -> None:
    engine, app, outbox = create_engine(database_url), Flask("shop"), Outbox()
    outbox.init_app(app, metadata=MetaData(), engine=engine)
    with pytest.raises(RuntimeError, match="give session="):
        outbox.enqueue(message())


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("given", [{}, {"metadata": MetaData()}])
def test_init_app_says_what_it_lacks(database_url: str, given: dict[str, MetaData]) -> None:
    with pytest.raises(ConfigurationError, match="metadata"):
        Outbox().init_app(Flask("shop"), **given)  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.databases("postgresql")
def test_the_tables_may_lie_in_a_schema_of_their_own(database_url: str, catcher: Catcher) -> None:
    engine = create_engine(database_url)
    metadata, app, outbox = MetaData(schema="mail"), Flask("shop"), Outbox()
    app.config.update(MAIL_SERVER="127.0.0.1", MAIL_PORT=catcher.port)
    sessions = sessionmaker(engine)
    outbox.init_app(app, session=scoped_session(sessions), metadata=metadata, engine=engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE SCHEMA mail")
        metadata.create_all(connection)
    with sessions() as session:
        outbox.enqueue(message(), session=session)
        session.commit()
    runtime = app.extensions["outbox"].runtime
    drain(runtime)
    assert outbox.counts() == {Status.SENT: 1}
    runtime.disconnect()
    engine.dispose()


def test_the_drop_in_enqueues_in_the_requests_session(shops: Shops, catcher: Catcher) -> None:
    shop, db, mail = on_flask(shops, MAIL_PORT=catcher.port)
    with shop.app.app_context():
        mail.send(mail_to())
        db.session.rollback()
        mail.send(mail_to("a@x.example", "b@x.example"))
        assert shop.count(shop.tables.email) == 0
        db.session.commit()
        with mail.connect() as connection:
            connection.send(mail_to("c@x.example"))
        db.session.commit()
    drain(shop.runtime)
    assert [caught.recipients for caught in catcher.emails] == [
        ("a@x.example", "b@x.example"),
        ("c@x.example",),
    ]


def test_under_testing_the_drop_in_records_and_writes_nothing(shops: Shops) -> None:
    shop, db, mail = on_flask(shops, TESTING=True)
    with shop.app.app_context(), mail.record_messages() as outbox:
        mail.send(mail_to())
        db.session.commit()
    assert [one.subject for one in outbox] == ["Order 1"]
    assert shop.count(shop.tables.email) == 0


def test_the_drop_in_commits_by_itself_only_when_its_email_is_alone(shops: Shops) -> None:
    shop, db, mail = on_flask(shops, OUTBOX_MAIL_AUTOCOMMIT=True)
    with shop.app.app_context():
        mail.send(mail_to())
        assert shop.count(shop.tables.email) == 1
        db.session.execute(insert(shop.orders).values(customer="Ada"))
        mail.send(mail_to())
        assert shop.count(shop.tables.email) == 1
        db.session.rollback()
        db.session.execute(select(shop.orders)).all()
        db.session.commit()
    assert shop.count(shop.tables.email) == 1
    assert shop.count(shop.orders) == 0


def test_an_email_that_nobody_committed_is_told_of_at_the_requests_end(
    shops: Shops, caplog: pytest.LogCaptureFixture
) -> None:
    shop, _, mail = on_flask(shops)
    with shop.app.app_context():
        mail.send(mail_to("secret@x.example"))
    assert shop.outbox.discarded == 1
    assert [r.levelno for r in caplog.records if r.name == "outbox"] == [logging.WARNING]
    assert "secret" not in caplog.text
    assert shop.count(shop.tables.email) == 0


def test_a_header_that_would_inject_another_is_refused_by_the_drop_in(shops: Shops) -> None:
    shop, db, mail = on_flask(shops)
    with shop.app.app_context():
        bad = mail_to()
        bad.subject = "x\r\nBcc: e@x.example"
        with pytest.raises(flask_mail.BadHeaderError):
            mail.send(bad)
        mail.send(mail_to())
        db.session.commit()
    assert shop.count(shop.tables.email) == 1


def test_a_forked_process_forgets_the_connections_of_every_engine(
    shops: Shops, tmp_path: Path
) -> None:
    binds = {"archive": f"sqlite:///{tmp_path / 'archive.db'}"}
    shop, db = shops.open_flask(SQLALCHEMY_BINDS=binds)
    with shop.app.app_context():
        engines = list(db.engines.values())
    assert len(engines) == 2
    used = []
    for engine in engines:  # by the app factory, and by nothing of ours
        with engine.connect() as connection:
            used.append(connection.connection.driver_connection)
        assert isinstance(engine.pool, QueuePool)
        assert engine.pool.checkedin() >= 1
    shop.runtime.after_fork()
    assert [engine.pool.checkedin() for engine in engines] == [0, 0]  # type: ignore[attr-defined]
    for driver in used:
        assert driver is not None
        driver.close()  # they were not closed: they are the parent's


@pytest.mark.long
@pytest.mark.databases("sqlite")
def test_a_forked_child_need_not_collect_what_its_parent_loaded(shop: Shop) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as children:
        collected, frozen = children.submit(_collected).result(timeout=60)
    assert collected < 1_000 < frozen


def _collected() -> tuple[int, int]:
    """Return how many objects a new child of a worker has to go through, and how many not."""
    worker_process_init.send(sender=None)
    return len(gc.get_objects()), gc.get_freeze_count()
