"""An app with Flask-Security-Too, unmodified, and an outbox; it records what each commit held."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any, NamedTuple

import flask_mail
import flask_mailman
from flask import Flask
from flask.testing import FlaskClient
from flask_security import Security, SQLAlchemyUserDatastore, hash_password
from flask_security.models import fsqla_v3
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import event, func, select
from sqlalchemy.orm import Session

from outbox import Outbox, OutboxMail
from outbox.flask_ext.app.state import state_of
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.schema import create

CUSTOMER = "ada@x.example"
OLD = "old password"

Door = Callable[[Flask, SQLAlchemy], object]


def drop_in(app: Flask, db: SQLAlchemy) -> None:
    Outbox().init_app(app, db=db)
    OutboxMail(app)


def outbox_alone(app: Flask, db: SQLAlchemy) -> None:
    Outbox().init_app(app, db=db)


def before_flask_mail(app: Flask, db: SQLAlchemy) -> None:
    Outbox().init_app(app, db=db)
    flask_mail.Mail(app)


def flask_mailman_after(app: Flask, db: SQLAlchemy) -> None:
    """Flask-Security sends by Flask-Mailman where it finds it."""
    Outbox().init_app(app, db=db)
    flask_mailman.Mail(app)


def flask_mailman_before(app: Flask, db: SQLAlchemy) -> None:
    flask_mailman.Mail(app)
    Outbox().init_app(app, db=db)


DOORS: tuple[Door, ...] = (
    drop_in,
    outbox_alone,
    before_flask_mail,
    flask_mailman_after,
    flask_mailman_before,
)


class Commit(NamedTuple):
    """What one commit held: the classes of Flask-Security's rows, and the number of emails."""

    rows: frozenset[str]
    emails: int


@dataclass(kw_only=True)
class Members:
    """An app with members and an outbox. Only commits with emails are kept."""

    app: Flask
    db: SQLAlchemy
    catcher: Catcher
    commits: list[Commit] = field(default_factory=list)

    def statuses(self) -> list[str]:
        """Return the status of each email that is committed."""
        table = state_of(self.app).runtime.tables.email
        with self.app.app_context(), self.db.engine.connect() as connection:
            return [row.status for row in connection.execute(table.select())]

    def members(self) -> list[dict[str, Any]]:
        """Return the members that are committed."""
        with self.app.app_context(), self.db.engine.connect() as connection:
            found = connection.exec_driver_sql('SELECT * FROM "user" ORDER BY id').mappings()
            return [dict(row) for row in found]

    def arrived(self) -> list[EmailMessage]:
        """Send what is committed; return all that arrived so far."""
        with self.app.app_context():
            drain(state_of().runtime)
        return [
            message_from_bytes(mail.content, EmailMessage, policy=policy.default)
            for mail in self.catcher.emails
        ]

    def client(self) -> FlaskClient:
        return self.app.test_client()

    def logged_in(self) -> FlaskClient:
        client = self.client()
        answer = client.post("/login", json={"email": CUSTOMER, "password": OLD})
        assert answer.status_code == 200, answer.json
        return client

    def fail_commits(self) -> None:
        """Have each commit fail from now on, after its flush."""

        def fails(session: Session) -> None:
            session.flush()
            raise ZeroDivisionError

        self.app.config["PROPAGATE_EXCEPTIONS"] = True
        event.listen(self.db.session, "before_commit", fails)

    def close(self) -> None:
        with self.app.app_context():
            state_of().runtime.disconnect()
            self.db.engine.dispose()


def members(door: Door, database_url: str, catcher: Catcher, **config: Any) -> Members:
    """Open the app with one member."""
    app, db = Flask("members"), SQLAlchemy()
    app.config.update(
        SECRET_KEY="s",
        SQLALCHEMY_DATABASE_URI=database_url,
        MAIL_SERVER="127.0.0.1",
        MAIL_PORT=catcher.port,
        MAIL_DEFAULT_SENDER="shop@shop.example",
        SECURITY_EMAIL_SENDER="members@shop.example",
        SECURITY_PASSWORD_SALT="1",
        SECURITY_PASSWORD_HASH="plaintext",
        SECURITY_PASSWORD_SCHEMES=["plaintext"],
        SECURITY_HASHING_SCHEMES=["hex_md5"],  # the default takes a fifth of a second a link
        SECURITY_DEPRECATED_HASHING_SCHEMES=[],
        SECURITY_EMAIL_VALIDATOR_ARGS={"check_deliverability": False},
        WTF_CSRF_ENABLED=False,
        **config,
    )
    db.init_app(app)
    door(app, db)
    fsqla_v3.FsModels.set_db_info(db)

    class Role(db.Model, fsqla_v3.FsRoleMixin):  # type: ignore[name-defined,misc]
        pass

    class User(db.Model, fsqla_v3.FsUserMixin):  # type: ignore[name-defined,misc]
        pass

    store = SQLAlchemyUserDatastore(db, User, Role)
    Security(app, store)
    with app.app_context():
        create(db.metadata, db.engine)
        store.create_user(email=CUSTOMER, username="adaada", password=hash_password(OLD))
        db.session.commit()
    found = Members(app=app, db=db, catcher=catcher)
    _record(found)
    return found


def _record(members: Members) -> None:
    """Note at each commit what its transaction wrote."""
    written: set[str] = set()

    def flushed(session: Session, *_: object) -> None:
        rows = (*session.new, *session.dirty, *session.deleted)
        written.update(type(row).__name__ for row in rows)

    def commits(session: Session) -> None:
        session.flush()
        table = state_of().runtime.tables.email
        count = session.connection().execute(select(func.count()).select_from(table)).scalar_one()
        emails = count - sum(commit.emails for commit in members.commits)
        if emails:
            members.commits.append(Commit(frozenset(written), emails))
        written.clear()

    event.listen(members.db.session, "after_flush", flushed)
    event.listen(members.db.session, "before_commit", commits)
