"""Flask-Security-Too's own password reset: its email commits with what the view wrote."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email import message_from_bytes, policy

import flask_mail
import pytest
from flask import Flask
from flask_security import Security, SQLAlchemyUserDatastore, hash_password
from flask_security.models import fsqla_v3
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import event
from sqlalchemy.orm import Session

from outbox import Outbox, OutboxMail
from outbox.flask_ext.app.state import state_of
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.schema import create

pytestmark = pytest.mark.databases("sqlite")

CUSTOMER = "ada@x.example"


@dataclass(kw_only=True)
class Members:
    """An app with members, a reset of their passwords, and an outbox."""

    app: Flask
    db: SQLAlchemy

    def statuses(self) -> list[str]:
        """Return the status of each email that is committed."""
        table = state_of(self.app).runtime.tables.email
        with self.app.app_context(), self.db.engine.connect() as connection:
            return [row.status for row in connection.execute(table.select())]

    def password(self) -> str:
        """Return the password that is committed."""
        with self.app.app_context(), self.db.engine.connect() as connection:
            found = connection.exec_driver_sql('SELECT password FROM "user"').scalar_one()
        return str(found)


Door = Callable[[Flask, SQLAlchemy], object]


def drop_in(app: Flask, db: SQLAlchemy) -> None:
    Outbox().init_app(app, db=db)
    OutboxMail(app)


def outbox_alone(app: Flask, db: SQLAlchemy) -> None:
    Outbox().init_app(app, db=db)


def before_flask_mail(app: Flask, db: SQLAlchemy) -> None:
    Outbox().init_app(app, db=db)
    flask_mail.Mail(app)


@pytest.fixture(params=[drop_in, outbox_alone, before_flask_mail], ids=lambda door: door.__name__)
def members(
    request: pytest.FixtureRequest, database_url: str, catcher: Catcher
) -> Iterator[Members]:
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
        SECURITY_RECOVERABLE=True,
        SECURITY_EMAIL_VALIDATOR_ARGS={"check_deliverability": False},
        WTF_CSRF_ENABLED=False,
    )
    db.init_app(app)
    request.param(app, db)
    fsqla_v3.FsModels.set_db_info(db)

    class Role(db.Model, fsqla_v3.FsRoleMixin):  # type: ignore[name-defined,misc]
        pass

    class User(db.Model, fsqla_v3.FsUserMixin):  # type: ignore[name-defined,misc]
        pass

    store = SQLAlchemyUserDatastore(db, User, Role)
    Security(app, store)
    with app.app_context():
        create(db.metadata, db.engine)
        store.create_user(email=CUSTOMER, password=hash_password("old password"))
        db.session.commit()
    yield Members(app=app, db=db)
    with app.app_context():
        state_of().runtime.disconnect()
        db.engine.dispose()


def link(members: Members, catcher: Catcher) -> str:
    """Ask for a reset; return the path in the email that comes."""
    answer = members.app.test_client().post("/reset", json={"email": CUSTOMER})
    assert answer.status_code == 200
    assert catcher.sessions == 0, "SMTP was spoken in the request"
    with members.app.app_context():
        drain(state_of().runtime)
    (mail,) = catcher.emails
    assert (mail.sender, mail.recipients) == ("members@shop.example", (CUSTOMER,))
    text = message_from_bytes(mail.content, policy=policy.default).get_body(("plain",))
    assert text is not None
    found = re.search(r"/reset/\S+", text.get_content())
    assert found is not None
    return found[0]


NEW = {"password": "a longer password", "password_confirm": "a longer password"}


def test_a_reset_is_asked_for_and_done_and_no_request_speaks_smtp(
    members: Members, catcher: Catcher
) -> None:
    path = link(members, catcher)
    assert members.statuses() == ["sent"]
    sessions = catcher.sessions
    assert members.app.test_client().post(path, json=NEW).status_code == 200
    assert members.statuses() == ["sent", "pending"], "the notice of the changed password"
    assert members.password() == NEW["password"]
    assert catcher.sessions == sessions


@pytest.mark.parametrize("members", [drop_in], indirect=True)
def test_the_notice_commits_with_the_new_password_or_not_at_all(
    members: Members, catcher: Catcher
) -> None:
    path = link(members, catcher)
    seen: list[int] = []

    def fails(session: Session) -> None:
        session.flush()
        table = state_of().runtime.tables.email
        seen.append(len(session.connection().execute(table.select()).all()))
        raise ZeroDivisionError

    event.listen(members.db.session, "before_commit", fails)
    members.app.config["PROPAGATE_EXCEPTIONS"] = True
    with pytest.raises(ZeroDivisionError):
        members.app.test_client().post(path, json=NEW)
    assert seen == [2]
    assert members.statuses() == ["sent"]
    assert members.password() == "old password"
