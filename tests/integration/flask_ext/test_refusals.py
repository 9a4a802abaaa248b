"""Bad input: an error that names the field and the rule, and a transaction that is still usable."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from email.message import EmailMessage
from typing import Any

import flask_mail
import pytest
from sqlalchemy.orm import Session

from outbox import InvalidMessage
from tests.support.shop.shop import START, Shop, Shops, message

pytestmark = pytest.mark.one_database("postgresql")

SECRET = "secret"
"""Stands in every address and subject below, and in no error."""


def raw(**headers: str) -> EmailMessage:
    """Return a message whose headers no policy has looked at."""
    mail = message(f"{SECRET}@x.example", subject=SECRET)
    for name, value in headers.items():
        mail._headers = [(n, v) for n, v in mail._headers if n != name]  # type: ignore[attr-defined]
        mail._headers.append((name, value))  # type: ignore[attr-defined]
    return mail


def flask(**options: Any) -> flask_mail.Message:
    values: dict[str, Any] = {
        "subject": SECRET,
        "recipients": [f"{SECRET}@x.example"],
        "sender": "shop@shop.example",
        "body": "Thank you.",
    }
    return flask_mail.Message(**values | options)


def unsigned() -> flask_mail.Message:
    mail = flask()
    mail.sender = ""
    return mail


def attached(filename: str, content_type: str = "text/plain", **headers: str) -> flask_mail.Message:
    mail = flask()
    mail.attach(filename, content_type, b"data", headers=headers)
    return mail


def without(name: str) -> EmailMessage:
    mail = message(f"{SECRET}@x.example", subject=SECRET)
    del mail[name]
    return mail


def sent_on(name: str) -> EmailMessage:
    """Return a message whose To has it already: `smtplib.send_message` would send it to others."""
    again = {"Resent-Date": "Mon, 04 May 2026 12:00:00 +0000", "Resent-From": "bo@x.example"}
    return message("ada@x.example", **again, **{name: f"{SECRET}@x.example"})


CRLF = f"x\r\nBcc: {SECRET}@evil.example"

MESSAGES: dict[str, tuple[Callable[[], Any], str]] = {
    "no recipient": (lambda: without("To"), "recipients"),
    "no sender": (lambda: without("From"), "from"),
    "no recipient of flask-mail": (lambda: flask(recipients=[]), "recipients"),
    "no sender of flask-mail": (unsigned, "sender"),
    "not a message": (lambda: f"To: {SECRET}@x.example", "message"),
    "nothing": (lambda: None, "message"),
    "line break in a subject": (lambda: raw(Subject=CRLF), "Subject"),
    "bare CR in a subject": (lambda: raw(Subject=f"{SECRET}\rBcc: x"), "Subject"),
    "bare LF in a subject": (lambda: raw(Subject=f"{SECRET}\nBcc: x"), "Subject"),
    "NUL in a subject": (lambda: raw(Subject=f"{SECRET}\0"), "Subject"),
    "line break in a recipient": (lambda: raw(To=f"{SECRET}@x.example\r\nBcc: e@x.example"), "To"),
    "line break in a header's name": (lambda: raw(**{f"X\r\nBcc: {SECRET}@x.example": "1"}), ""),
    "line break in any header": (lambda: raw(**{"X-Shop": CRLF}), "X-Shop"),
    "a recipient that is no address": (lambda: raw(To=SECRET), ""),
    "a recipient without a domain": (lambda: raw(To=f"{SECRET}@"), ""),
    "a recipient with a bad domain": (lambda: raw(To=f"{SECRET}@-x-.example"), ""),
    "a sender that is no address": (lambda: raw(From=SECRET), ""),
    "sent on to somebody": (lambda: sent_on("Resent-To"), "resent-to"),
    "sent on to somebody in a copy": (lambda: sent_on("Resent-Cc"), "resent-cc"),
    "sent on to somebody in secret": (lambda: sent_on("Resent-Bcc"), "resent-bcc"),
    "flask-mail, line break in the subject": (lambda: flask(subject=CRLF), "subject"),
    "flask-mail, NUL in the subject": (lambda: flask(subject=f"{SECRET}\0"), "subject"),
    "flask-mail, lone surrogate in the subject": (lambda: flask(subject=f"{SECRET}\ud800"), ""),
    "flask-mail, line break in a recipient": (lambda: flask(recipients=[CRLF]), "recipients"),
    "flask-mail, a recipient that is no address": (lambda: flask(recipients=[SECRET]), ""),
    "flask-mail, line break in a cc": (lambda: flask(cc=[f"a@x.example\n{SECRET}"]), "cc"),
    "flask-mail, line break in a bcc": (lambda: flask(bcc=[f"a@x.example\n{SECRET}"]), "bcc"),
    "flask-mail, line break in a reply-to": (
        lambda: flask(reply_to=f"a@x.example\r\nX: {SECRET}"),
        "reply_to",
    ),
    "flask-mail, line break in a name": (
        lambda: flask(recipients=[(CRLF, f"{SECRET}@x.example")]),
        "recipients",
    ),
    "flask-mail, line break in a header": (
        lambda: flask(extra_headers={"X-Shop": CRLF}),
        "extra_headers",
    ),
    "flask-mail, line break in a header's name": (
        lambda: flask(extra_headers={CRLF: "1"}),
        "extra_headers",
    ),
    "flask-mail, line break in a file name": (lambda: attached(CRLF), "filename"),
    "flask-mail, line break in a content type": (
        lambda: attached("a.txt", f"text/plain\r\nX: {SECRET}"),
        "content_type",
    ),
    "flask-mail, line break in a part's header": (
        lambda: attached("a.txt", **{"X-Part": CRLF}),
        "headers",
    ),
    "flask-mail, lone surrogate in the body": (lambda: flask(body=f"{SECRET}\ud800"), ""),
    "flask-mail, unknown charset": (lambda: flask(charset="klingon"), "charset"),
    "flask-mail, line break in a mail option": (
        lambda: flask(mail_options=[f"BODY=8BITMIME\r\nRCPT TO:<{SECRET}@x.example>"]),
        "mail_options",
    ),
    "flask-mail, line break in a rcpt option": (
        lambda: flask(rcpt_options=[f"NOTIFY=NEVER\n{SECRET}"]),
        "rcpt_options",
    ),
    "flask-mail, NUL in a mail option": (lambda: flask(mail_options=["A\0"]), "mail_options"),
    "flask-mail, a mail option that is no text": (lambda: flask(mail_options=[5]), "mail_options"),
    "too many recipients": (
        lambda: flask(recipients=[f"r{n}@x.example" for n in range(10_001)]),
        "recipients",
    ),
}

OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown priority": ({"priority": "someday"}, "priority"),
    "unknown priority's number": ({"priority": 7}, "priority"),
    "priority of another type": ({"priority": True}, "priority"),
    "naive send_at": ({"send_at": datetime(2026, 1, 1)}, "send_at"),  # noqa: DTZ001
    "naive expires_at": ({"expires_at": datetime(2026, 1, 1)}, "expires_at"),  # noqa: DTZ001
    "send_at of another type": ({"send_at": "tomorrow"}, "send_at"),
    "expires_at before send_at": (
        {"send_at": START, "expires_at": START - timedelta(seconds=1)},
        "expires_at",
    ),
    "expires_at at send_at": ({"send_at": START, "expires_at": START}, "expires_at"),
    "empty key": ({"key": ""}, "key"),
    "long key": ({"key": SECRET * 50}, "key"),
    "key with a line break": ({"key": f"{SECRET}\n"}, "key"),
    "key with NUL": ({"key": f"{SECRET}\0"}, "key"),
    "key with a lone surrogate": ({"key": f"{SECRET}\udfff"}, "key"),
    "key with a blank at its end": ({"key": f"{SECRET} "}, "key"),
    "key of another type": ({"key": 5}, "key"),
    "long tag": ({"tag": SECRET * 20}, "tag"),
    "tag with NUL": ({"tag": f"{SECRET}\0"}, "tag"),
    "unknown policy of doubt": ({"on_unknown": SECRET}, "on_unknown"),
    "no attempts": ({"max_attempts": 0}, "max_attempts"),
    "too many attempts": ({"max_attempts": 10**9}, "max_attempts"),
    "attempts of another type": ({"max_attempts": "3"}, "max_attempts"),
}


def refusal(shop: Shop, session: Session, mail: Any, **options: Any) -> InvalidMessage:
    with pytest.raises(InvalidMessage) as caught:
        shop.outbox.enqueue(mail, session=session, **options)
    error = caught.value
    assert error.field
    assert error.rule
    place = "" if error.index is None else f"[{error.index}]"
    assert str(error) == f"{error.field}{place}: {error.rule}"
    assert SECRET not in str(error)
    return error


def refused(shop: Shop, mail: Any, **options: Any) -> InvalidMessage:
    """Enqueue, and check that nothing is stored and the transaction is usable."""
    with shop.session() as session:
        shop.order(session)
        error = refusal(shop, session, mail, **options)
        kept = shop.outbox.enqueue(message(), session=session, key="kept")
        session.commit()
    assert [row.id for row in shop.rows(shop.tables.email)] == [kept.id]
    assert shop.count(shop.tables.content) == shop.count(shop.orders) == 1
    assert shop.count(shop.tables.recipient) == 0
    return error


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("case", MESSAGES, ids=lambda case: case.replace(" ", "-"))
def test_a_bad_message_is_refused_by_field_and_rule(shop: Shop, case: str) -> None:
    make, field = MESSAGES[case]
    with shop.app.app_context():
        error = refused(shop, make())
    assert error.field == field or not field


@pytest.mark.databases("sqlite")
def test_without_a_date_of_their_own_resent_headers_name_nobody(shop: Shop) -> None:
    """`smtplib.send_message` goes by To then, too."""
    mail = message("ada@x.example", **{"Resent-To": "eve@x.example", "Resent-Bcc": "eve@x.example"})
    with shop.session() as session:
        email = shop.outbox.enqueue(mail, session=session)
        session.commit()
    details = shop.outbox.get(email.id)
    assert details
    assert [one.address for one in details.recipient_list] == ["ada@x.example"]


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("case", OPTIONS, ids=lambda case: case.replace(" ", "-"))
def test_a_bad_option_is_refused_by_field_and_rule(shop: Shop, case: str) -> None:
    options, field = OPTIONS[case]
    assert refused(shop, message(f"{SECRET}@x.example"), **options).field == field


@pytest.mark.parametrize("key", [None, "order-1"])
def test_after_every_refusal_the_same_transaction_goes_on_and_commits(
    shop: Shop, key: str | None
) -> None:
    with shop.session() as session, shop.app.app_context():
        shop.order(session)
        for case, (make, _) in MESSAGES.items():
            if case != "too many recipients":  # slow, and the same everywhere
                refusal(shop, session, make(), key=key)
        for options, _ in OPTIONS.values():
            refusal(shop, session, message(f"{SECRET}@x.example"), **{"key": key} | options)
        kept = shop.outbox.enqueue(message(), session=session, key=key)
        session.commit()
    assert kept.created
    assert [row.id for row in shop.rows(shop.tables.email)] == [kept.id]
    assert shop.count(shop.tables.content) == shop.count(shop.orders) == 1
    assert shop.count(shop.tables.recipient) == 0


def test_a_body_over_the_limit_is_refused(shops: Shops) -> None:
    shop = shops.open(OUTBOX_MAX_SIZE=10_000)
    error = refused(shop, message(f"{SECRET}@x.example", text=f"{SECRET}\n" * 5000))
    assert (error.field, "OUTBOX_MAX_SIZE" in error.rule) == ("message", True)


def test_every_email_that_is_not_refused_fits_its_columns(shop: Shop) -> None:
    local, domain = "l" * 64, ".".join(["d" * 61] * 3)
    longest = f"{local}@{domain}"[:254].rstrip(".")
    email = shop.enqueue(
        longest,
        key="\U0001f4e7" * 255,
        tag="\u00e4" * 100,
        max_attempts=1000,
        on_unknown="resend",
        send_at=datetime(8999, 12, 31, tzinfo=START.tzinfo),
    )
    row = shop.email_row(email.id)
    assert (row.recipient, row.key, row.tag) == (longest, "\U0001f4e7" * 255, "\u00e4" * 100)
