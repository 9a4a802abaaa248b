"""An app of which nobody knows any more is freed, and its engine too: tests make an app each."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from celery import Celery
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import scoped_session, sessionmaker

from outbox import Outbox, OutboxMail
from outbox.celery_config import configure
from outbox.dashboard import Dashboard
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import message

pytestmark = pytest.mark.one_database("sqlite")

db = SQLAlchemy()
outbox = Outbox()
mail = OutboxMail()
dashboard = Dashboard(access=lambda: None)
celery: Any = Celery("shop", broker="memory://", set_as_current=False)
"""They live as long as their module, as in each app with a factory. They know the last app."""


def on_flask_sqlalchemy(app: Flask, url: str) -> None:
    app.config["SQLALCHEMY_DATABASE_URI"] = url
    db.init_app(app)
    outbox.init_app(app, db=db)
    with app.app_context():
        db.create_all()
        outbox.enqueue(message())
        db.session.commit()


def on_sqlalchemy(app: Flask, url: str) -> None:
    engine = sa.create_engine(url)
    metadata, session = sa.MetaData(), scoped_session(sessionmaker(engine))
    outbox.init_app(app, session=session, metadata=metadata, engine=engine)
    app.teardown_appcontext(lambda _: session.remove())
    metadata.create_all(engine)
    with app.app_context():
        outbox.enqueue(message())
        session().commit()


@pytest.mark.long
@pytest.mark.parametrize("made", [on_flask_sqlalchemy, on_sqlalchemy])
def test_an_app_that_nobody_holds_is_freed_with_all_that_it_has(
    made: Callable[[Flask, str], None], database_url: str, catcher: Catcher
) -> None:
    def use() -> tuple[weakref.ref[Flask], weakref.ref[sa.Engine]]:
        app = Flask("shop")
        app.config.update(MAIL_SERVER="127.0.0.1", MAIL_PORT=catcher.port)
        configure(celery, app)
        made(app, database_url)
        mail.init_app(app)
        dashboard.init_app(app)
        runtime = app.extensions["outbox"].runtime
        engine = runtime.database.engine
        drain(runtime)
        runtime.disconnect()
        engine.dispose()
        return weakref.ref(app), weakref.ref(engine)

    (first, its_engine), (last, _) = use(), use()
    gc.collect()
    gc.collect()  # Flask-SQLAlchemy lets the engine go when the app is gone
    assert len(catcher.emails) == 2
    assert (first(), its_engine()) == (None, None)
    assert last() is not None
