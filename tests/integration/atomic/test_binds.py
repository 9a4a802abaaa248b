"""Several databases in one app: the outbox is on the bind of the rows that have emails."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from flask_migrate import Migrate
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from outbox import ConfigurationError, Outbox, Status
from outbox.flask_ext.app.state import state_of
from outbox.worker.drain import drain
from tests.integration.atomic.binds import APART, Binds, Opened, enqueued, kept
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop import schema
from tests.support.shop.shop import Shop, message

pytestmark = pytest.mark.one_database("sqlite")


@pytest.mark.each_database
def test_the_outbox_is_on_the_bind_of_its_metadata(opened: Opened, catcher: Catcher) -> None:
    binds = opened("shop", MAIL_PORT=catcher.port)
    runtime = state_of(binds.app).runtime
    assert runtime.database.engine is binds.db.engines["shop"]
    binds.order()
    binds.outbox.enqueue(message())
    binds.db.session.commit()
    drain(runtime)
    assert [mail.recipients for mail in catcher.emails] == [("a@customers.example",)]
    assert binds.outbox.counts() == {Status.SENT: 1}
    assert binds.count(binds.shop) == 1


def test_commands_find_the_bind(opened: Opened) -> None:
    binds = opened("shop")
    binds.outbox.enqueue(message())
    binds.db.session.commit()
    told = binds.app.test_cli_runner().invoke(args=["outbox", "list"])
    assert (told.exit_code, "pending" in told.output) == (0, True)


@pytest.mark.each_database
def test_an_order_in_another_database_is_refused_and_may_be_committed_alone(
    opened: Opened,
) -> None:
    binds = opened(None)
    binds.order()
    for call in (
        lambda: binds.outbox.enqueue(message()),
        lambda: binds.outbox.enqueue_many([message()]),
        lambda: binds.outbox.cancel(id=1),
    ):
        with pytest.raises(ConfigurationError, match=APART):
            call()
    binds.db.session.commit()
    assert (binds.count(binds.shop), binds.emails()) == (1, 0)


@pytest.mark.each_database
def test_an_order_that_comes_after_its_email_is_refused_at_the_commit(opened: Opened) -> None:
    binds = opened(None)
    binds.outbox.enqueue(message())
    binds.order()
    with pytest.raises(ConfigurationError, match=APART):
        binds.db.session.commit()
    binds.db.session.rollback()
    assert (binds.count(binds.shop), binds.emails()) == (0, 0)


def test_an_order_that_the_commit_itself_flushes_is_refused(opened: Opened) -> None:
    binds = opened(None)
    kind = type("Order", (), {})
    sa.orm.registry(metadata=binds.shop.metadata).map_imperatively(kind, binds.shop)
    binds.outbox.enqueue(message())
    row = kind()
    row.customer = "Ada"
    binds.db.session.add(row)
    with pytest.raises(ConfigurationError, match=APART):
        binds.db.session.commit()
    binds.db.session.rollback()
    assert (binds.count(binds.shop), binds.emails()) == (0, 0)
    binds.outbox.enqueue(message())
    binds.db.session.commit()
    assert binds.emails() == 1, "the session is usable"


@pytest.mark.databases("sqlite", "postgresql")
@pytest.mark.one_database("sqlite")
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO outbox_events (id) VALUES (1)",
        "INSERT INTO orders (customer) VALUES ('outbox_email')",
        "INSERT /* see outbox_email */ INTO orders (customer) VALUES ('Ada')",
        "UPDATE events SET outbox_email_id = 1",
        "WITH new AS (SELECT 1 AS id) INSERT INTO outbox_events SELECT id FROM new",
    ],
)
def test_rows_elsewhere_are_refused_also_where_their_statement_names_what_sounds_like_ours(
    opened: Opened, statement: str
) -> None:
    binds = opened(None)
    shop = binds.db.engines["shop"]
    with shop.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE outbox_events (id integer)")
        connection.exec_driver_sql("CREATE TABLE events (outbox_email_id integer)")

    def written(binds: Binds) -> None:
        binds.db.session.execute(sa.text(statement), bind_arguments={"bind": shop})

    for one, other in ((written, enqueued), (enqueued, written)):
        one(binds)
        with pytest.raises(ConfigurationError, match=APART):
            kept(binds, other)
        binds.db.session.rollback()
    assert binds.emails() == 0


@pytest.mark.databases("sqlite")
def test_a_write_that_others_made_on_the_connection_is_undone_by_no_savepoint(
    opened: Opened,
) -> None:
    binds = opened(None)
    ours = dict.fromkeys(binds.db.metadatas[None].sorted_tables, binds.db.engines[None])
    with binds.db.engines["shop"].connect() as connection:
        tables: dict[Any, Any] = {**ours, binds.shop: connection}
        with Session(connection) as first, Session(binds=tables) as second:
            first.execute(sa.insert(binds.shop).values(customer="Ada"))
            savepoint = second.begin_nested()
            second.execute(sa.select(binds.shop)).all()
            savepoint.rollback()
            with pytest.raises(ConfigurationError, match=APART):
                binds.outbox.enqueue(message(), session=second)


@pytest.mark.databases("sqlite")
def test_rows_elsewhere_may_be_read_but_not_written_beside_an_order_and_its_email(
    opened: Opened,
) -> None:
    """Nobody can tell whether the email belongs to the rows here or to those."""
    binds = opened("shop")
    binds.db.session.execute(sa.select(binds.default)).all()
    default = {"bind": binds.db.engines[None]}
    binds.db.session.execute(sa.text("PRAGMA user_version"), bind_arguments=default).all()
    binds.outbox.enqueue(message())
    binds.order()
    binds.db.session.commit()
    assert (binds.count(binds.shop), binds.emails()) == (1, 1)
    binds.order("Bob")
    binds.outbox.enqueue(message())
    binds.order("a line of the log", on=binds.default)
    with pytest.raises(ConfigurationError, match=APART):
        binds.db.session.commit()


def test_a_setting_allows_two_commits_and_check_says_what_is_lost(opened: Opened) -> None:
    binds = opened(None, OUTBOX_ALLOW_TWO_COMMITS=True)
    binds.order()
    binds.outbox.enqueue(message())
    binds.db.session.commit()
    assert (binds.count(binds.shop), binds.emails()) == (1, 1)
    told = binds.app.test_cli_runner().invoke(args=["outbox", "check"])
    assert "OUTBOX_ALLOW_TWO_COMMITS is set: if the second of two commits fails" in told.output


@pytest.mark.databases("postgresql")
def test_two_databases_in_one_commit_of_two_phases_are_taken(shop: Shop, elsewhere: str) -> None:
    other = sa.create_engine(elsewhere)
    audit = schema.orders(sa.MetaData())
    tables: dict[Any, Any] = dict.fromkeys(shop.orders.metadata.sorted_tables, shop.engine)
    for twophase in (False, True):
        with Session(binds={**tables, audit: other}, twophase=twophase) as session:
            session.execute(sa.insert(audit).values(customer="Ada"))
            if not twophase:
                with pytest.raises(ConfigurationError, match="twophase=True"):
                    shop.outbox.enqueue(message(), session=session)
                continue
            shop.outbox.enqueue(message(), session=session)
            session.commit()
    with other.connect() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(audit)).scalar() == 1
    other.dispose()
    assert shop.count(shop.tables.email) == 1


def test_emails_of_two_outboxes_in_two_databases_are_refused_in_one_session(
    shop: Shop, elsewhere: str
) -> None:
    app, outbox, metadata = Flask("other"), Outbox(), sa.MetaData()
    app.config.update(MAIL_SERVER="127.0.0.1", MAIL_PORT=1)
    engine = sa.create_engine(elsewhere)
    outbox.init_app(app, metadata=metadata, engine=engine)
    tables: dict[Any, Any] = dict.fromkeys(shop.orders.metadata.sorted_tables, shop.engine)
    with Session(binds=tables | dict.fromkeys(metadata.sorted_tables, engine)) as session:
        shop.outbox.enqueue(message(), session=session)
        with app.app_context(), pytest.raises(ConfigurationError, match=APART):
            outbox.enqueue(message(), session=session)
        session.commit()
    state_of(app).runtime.disconnect()
    engine.dispose()
    assert shop.count(shop.tables.email) == 1


def test_a_bind_that_is_not_there_is_named(database_url: str) -> None:
    app, db = Flask("shop"), SQLAlchemy()
    app.config["SQLALCHEMY_BINDS"] = {"shop": database_url}
    db.init_app(app)
    with pytest.raises(ConfigurationError, match="SQLALCHEMY_DATABASE_URI, or give init_app"):
        Outbox().init_app(app, db=db)
    elsewhere = sa.MetaData(info={"bind_key": "mial"})
    with pytest.raises(ConfigurationError, match=r"set SQLALCHEMY_BINDS\['mial'\]"):
        Outbox().init_app(app, db=db, metadata=elsewhere)


@pytest.mark.matrix
@pytest.mark.each_database
@pytest.mark.parametrize("apart", [False, True])
def test_check_warns_of_a_migration_that_does_not_know_our_tables_if_it_is_of_their_database(
    database_url: str, elsewhere: str, apart: bool
) -> None:
    app, db, engine = Flask("shop"), SQLAlchemy(), sa.create_engine(database_url)
    url = elsewhere if apart else database_url
    app.config.update(SQLALCHEMY_DATABASE_URI=url, MAIL_SERVER="127.0.0.1", MAIL_PORT=1)
    db.init_app(app)
    Migrate(app, db)
    source = scoped_session(sessionmaker(engine))
    Outbox().init_app(app, session=source, metadata=sa.MetaData(), engine=engine)
    with app.app_context():
        told = app.test_cli_runner().invoke(args=["outbox", "check"]).output
        db.engine.dispose()
    state_of(app).runtime.disconnect()
    engine.dispose()
    assert ("flask db migrate would remove the outbox's tables" in told) is not apart
