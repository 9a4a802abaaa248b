"""Mistakes in an app's code, where it calls the outbox."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from flask import Flask
from flask_mail import Message
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from outbox import InvalidMessage, Outbox
from outbox.testing import OutboxTester

from .table import Table
from .trial import Trial, letter

CASES = Table()
mistake = CASES.mistake


def newsletter() -> Message:
    return Message("News", body="New ink!", sender="shop@shop.example")


def caught(trial: Trial, *arguments: Any, **options: Any) -> InvalidMessage:
    """Return the error of an `enqueue_many`."""
    with trial.app().app_context():
        try:
            trial.outbox.enqueue_many(*arguments, **options)
        except InvalidMessage as error:
            return error
    raise AssertionError("it was taken")


@mistake(
    "one wrong address among thousands",
    exception="InvalidMessage: recipients[1417]: an address has the form local-part@domain",
)
def _(trial: Trial) -> None:
    people = [f"r{number}@readers.example" for number in range(2000)]
    people[1417] = "Ada"
    error = caught(trial, newsletter(), people)
    assert (error.index, error.value, error.field) == (1417, "Ada", "recipients")
    raise error


@mistake(
    "one wrong address among keyed ones, which are sorted",
    exception="InvalidMessage: recipients[0]: an address has the form local-part@domain",
)
def _(trial: Trial) -> None:
    error = caught(
        trial, newsletter(), ["zoe", "ada@x.example"], key=lambda address: f"n-{address}"
    )
    assert (error.index, error.value) == (0, "zoe")
    raise error


@mistake(
    "one wrong message among many",
    exception="InvalidMessage: messages[1]: message: must be a flask_mail.Message",
)
def _(trial: Trial) -> None:
    wrong = {"to": "ada@x.example"}
    sender = "shop@shop.example"
    error = caught(trial, [Message("1", ["a@x.example"], "x", sender=sender), wrong])
    assert (error.index, error.value, error.field) == (1, wrong, "message")
    raise error


@mistake(
    "one wrong address in one message",
    exception="InvalidMessage: recipients[1]: an address has the form local-part@domain",
)
def _(trial: Trial) -> None:
    with trial.app().app_context():
        trial.outbox.enqueue(letter("ada@x.example", "Bob"))


@mistake(
    "one wrong address in one message of many",
    exception="InvalidMessage: messages[3].recipients[0]: an address has the form",
)
def _(trial: Trial) -> None:
    sender = "shop@shop.example"
    many = [Message("News", [to], "x", sender=sender) for to in ("a@x.example",) * 3]
    wrong = Message("News", ["Ada"], "x", sender=sender)
    error = caught(trial, [*many, wrong])
    assert (error.index, error.value, error.field) == (3, wrong, "recipients")
    raise error


@mistake(
    "a newsletter with fields that nobody fills in",
    exception="InvalidMessage: fields: are missing for {{ name }} in line 2 of text/plain: give a",
)
def _(trial: Trial) -> None:
    news = Message("News", body="Hello,\nDear {{ name }}!", sender="shop@shop.example")
    raise caught(trial, news, ["ada@x.example"])


@mistake(
    "a newsletter that lacks a reader's value",
    exception="InvalidMessage: recipients[1]: fields: the field name is missing",
)
def _(trial: Trial) -> None:
    news = Message("News", body="Dear {{ name }}!", sender="shop@shop.example")
    names = {"ada@x.example": {"name": "Ada"}}
    readers = ["ada@x.example", "bob@x.example"]
    raise caught(trial, news, readers, fields=lambda reader: names.get(reader, {}))


@mistake(
    "a key that another email has",
    exception="KeyConflict: an email with other content has the key 'order-1'",
)
def _(trial: Trial) -> None:
    trial.app()
    trial.enqueue(key="order-1")
    with trial.apps[-1].app_context():
        trial.outbox.enqueue(letter("bob@customers.example"), key="order-1")


@mistake(
    "a text in the place of a list of recipients",
    exception="InvalidMessage: recipients: must be a list of addresses, and not one text",
)
def _(trial: Trial) -> None:
    raise caught(trial, newsletter(), "ada@x.example")


@mistake(
    "expires_at in the past",
    exception="InvalidMessage: expires_at: has passed already, by this host's clock",
)
def _(trial: Trial) -> None:
    trial.app()
    trial.enqueue(expires_at=datetime.now(UTC) - timedelta(seconds=1))


@mistake(
    "a time without a zone",
    exception="InvalidMessage: send_at: must be aware: give it a time zone, such as datetime.UTC",
)
def _(trial: Trial) -> None:
    trial.app()
    trial.enqueue(send_at=datetime(2030, 1, 1))  # noqa: DTZ001


@mistake(
    "no sender",
    exception="InvalidMessage: sender: is required; set it or MAIL_DEFAULT_SENDER",
)
def _(trial: Trial) -> None:
    trial.app(MAIL_DEFAULT_SENDER=None)
    trial.enqueue()


@mistake(
    'app.extensions["mail"] taken out',
    exception='app.extensions["mail"] was removed after init_app',
    check='app.extensions["mail"] was removed after init_app',
)
def _(trial: Trial) -> None:
    trial.app().extensions.pop("mail")
    trial.enqueue()


@mistake(
    "no commit",
    log="1 email was discarded: the session was closed without a commit. That is right after an",
)
def _(trial: Trial) -> None:
    with trial.app().app_context():
        trial.outbox.enqueue(letter())


@mistake(
    "no commit after a cancel",
    log="1 email is not withdrawn after all: the session was closed without a commit",
)
def _(trial: Trial) -> None:
    trial.app()
    trial.enqueue(key="order-1")
    with trial.apps[-1].app_context():
        trial.outbox.cancel(key="order-1")


@mistake(
    "a session of plain SQLAlchemy that is not removed behind its request",
    log="the request has ended, and its session is still open with 1 email",
)
def _(trial: Trial) -> None:
    app, outbox = Flask("shop"), Outbox()
    engine = trial.engine(trial.url)
    session = scoped_session(sessionmaker(engine))
    outbox.init_app(app, session=session, metadata=sa.MetaData(), engine=engine)
    with app.app_context():
        outbox.enqueue(letter(sender="shop@shop.example"))
    session.remove()


@mistake(
    "an enqueue in a session that was closed, and that nobody commits again",
    log="1 email was discarded: the session was closed without a commit. That is right after an",
)
def _(trial: Trial) -> None:
    with trial.app().app_context():
        session = trial.db.session()
        session.commit()
        session.close()
        trial.outbox.enqueue(letter(), session=session)


@mistake(
    "an enqueue outside of an app context",
    exception="RuntimeError: Working outside of application context",
)
def _(trial: Trial) -> None:
    trial.app()
    trial.outbox.enqueue(letter(sender="shop@shop.example"))


@mistake(
    "an enqueue behind the commit, in a listener of after_commit or models_committed",
    exception="ConfigurationError: the session has just committed, as in a listener of after_commit"
    " or models_committed: call this before the commit",
)
def _(trial: Trial) -> None:
    with trial.app().app_context():
        trial.db.session.execute(sa.text("SELECT 1"))
        sa.event.listen(
            trial.db.session(), "after_commit", lambda _: trial.outbox.enqueue(letter())
        )
        trial.db.session.commit()


@mistake(
    "a verb that would wait for one's own session, on SQLite",
    exception="ConfigurationError: a session of this thread has written",
)
def _(trial: Trial) -> None:
    app = trial.app()
    with app.app_context(), Session(trial.db.engine) as session:
        trial.outbox.enqueue(letter(), session=session)
        trial.outbox.pause()


@mistake(
    "a filter of assert_enqueued that does not exist",
    exception="TypeError: there is no filter 'subjekt'; did you mean subject?",
)
def _(trial: Trial) -> None:
    app = trial.app()
    with app.app_context(), OutboxTester(app) as tester:
        tester.assert_enqueued(subjekt="Your order")  # type: ignore[call-arg]
