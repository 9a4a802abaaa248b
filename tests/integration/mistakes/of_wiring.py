"""Mistakes in how an app, its outbox and the tables are put together."""

from __future__ import annotations

import sqlalchemy as sa
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.schema import CreateTable

from outbox import Outbox
from outbox.dashboard import Dashboard

from .table import Table
from .trial import Trial, letter

CASES = Table()
mistake = CASES.mistake


@mistake(
    "two outboxes on one app, or init_app called twice",
    exception="ConfigurationError: this app has an outbox already: call init_app once",
)
def _(trial: Trial) -> None:
    Outbox(trial.app(), trial.db)


@mistake(
    "the db of another app",
    exception="is not registered with this 'SQLAlchemy' instance",
)
def _(trial: Trial) -> None:
    trial.app(init=False)
    trial.outbox.init_app(trial.apps[-1], db=SQLAlchemy())


@mistake(
    "a session on another database",
    exception="ConfigurationError: the session's engine leads to another database",
)
def _(trial: Trial) -> None:
    engine = trial.engine(f"sqlite:///{trial.folder}/another.db")
    with trial.app().app_context(), Session(engine) as session:
        trial.outbox.enqueue(letter(), session=session)


@mistake(
    "a session in autocommit",
    exception="ConfigurationError: the session's connection is in autocommit",
    check="error  the session's connection is in autocommit",
)
def _(trial: Trial) -> None:
    trial.app(SQLALCHEMY_ENGINE_OPTIONS={"isolation_level": "AUTOCOMMIT"})
    trial.enqueue()


@mistake(
    "a sessionmaker in the place of the request's session",
    exception="session=… makes a new session at each call, and nobody would commit it",
)
def _(trial: Trial) -> None:
    engine = trial.engine(trial.url)
    Outbox().init_app(
        Flask("shop"), session=sessionmaker(engine), metadata=sa.MetaData(), engine=engine
    )


@mistake(
    "one session for all requests",
    exception="ConfigurationError: session=… of init_app must be a scoped_session, or a function"
    " that returns the request's session, but is a Session",
)
def _(trial: Trial) -> None:
    engine = trial.engine(trial.url)
    session = sessionmaker(engine)()
    Outbox().init_app(Flask("shop"), session=session, metadata=sa.MetaData(), engine=engine)  # type: ignore[arg-type]


@mistake(
    "the engine in the place of the request's session",
    exception="ConfigurationError: session=… of init_app must be a scoped_session, or a function"
    " that returns the request's session, but is a ",
)
def _(trial: Trial) -> None:
    engine = trial.engine(trial.url)
    Outbox().init_app(Flask("shop"), session=engine, metadata=sa.MetaData(), engine=engine)  # type: ignore[arg-type]


class _Lite:
    """As Flask-SQLAlchemy-Lite's class: it has the other one's name, and no metadata."""


_Lite.__module__, _Lite.__name__ = "flask_sqlalchemy_lite._extension", "SQLAlchemy"


@mistake(
    "the db of Flask-SQLAlchemy-Lite",
    exception="must be Flask-SQLAlchemy's SQLAlchemy(), but is a SQLAlchemy of"
    " flask_sqlalchemy_lite; without Flask-SQLAlchemy give session=…, metadata=… and engine=…",
)
def _(_trial: Trial) -> None:
    Outbox().init_app(Flask("shop"), db=_Lite())


@mistake(
    "the session, or an engine, in the place of the db",
    exception="ConfigurationError: db=… must be Flask-SQLAlchemy's SQLAlchemy(), but is a scoped",
)
def _(trial: Trial) -> None:
    trial.app(init=False)
    Outbox().init_app(Flask("shop"), db=trial.db.session)


_CLOSED = (
    "nobody may see the dashboard, and each of its addresses answers 404: give it"
    " Dashboard(access=…), see docs/how-to/dashboard.md"
)


@mistake("a dashboard without access", log=_CLOSED, check=_CLOSED)
def _(trial: Trial) -> None:
    Dashboard().init_app(trial.app())


@mistake(
    "a batch migration on SQLite that copies a table without AUTOINCREMENT",
    check="outbox_email has lost AUTOINCREMENT: a new row may get the id of a purged one",
)
def _(trial: Trial) -> None:
    app = trial.app()
    table = trial.db.metadata.tables["outbox_email"]
    with app.app_context(), trial.db.engine.begin() as connection:
        copy = str(CreateTable(table).compile(connection)).replace(" PRIMARY KEY AUTOINCREMENT", "")
        connection.exec_driver_sql("DROP TABLE outbox_email")
        connection.exec_driver_sql(copy.replace("\n)", ", PRIMARY KEY (id)\n)"))
