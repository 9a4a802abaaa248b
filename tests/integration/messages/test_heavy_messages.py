"""A message that is too large is refused before it is rendered, in little memory."""

from __future__ import annotations

import email
import tracemalloc
from collections.abc import Callable
from email.message import EmailMessage
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

import flask_mail
import pytest

from outbox import InvalidMessage, OutboxMail
from outbox.flask_ext.asynchronous import AnyMessage
from tests.support.shop.shop import Shop, Shops, message, newsletter

MEGABYTE = 10**6
SIZE = 8 * MEGABYTE
MOST = 7 * MEGABYTE
"""To refuse the attachment by its rendered size took seven times its own."""
BOUND = MEGABYTE // 2

pytestmark = pytest.mark.databases("sqlite")


def flask_message(**fields: object) -> flask_mail.Message:
    given = {"subject": "s", "sender": "shop@shop.example", "recipients": ["a@x.example"]}
    return flask_mail.Message(**given | fields)  # type: ignore[arg-type]


def attached(mail: EmailMessage) -> EmailMessage:
    mail.add_attachment(b"x" * SIZE, "application", "pdf", filename="terms.pdf")
    return mail


def forwarded() -> EmailMessage:
    mail = message()
    mail.add_attachment(attached(message()))
    return mail


def old() -> MIMEMultipart:
    mail = MIMEMultipart()
    mail["From"], mail["To"] = "shop@shop.example", "a@x.example"
    mail.attach(MIMEText("x" * SIZE))
    return mail


def received() -> AnyMessage:
    raw = b"From: a@b.example\nTo: c@d.example\nContent-Type: text/plain; charset=utf-8\n\n"
    return email.message_from_bytes(raw + ("ü" * 400 + "\n").encode() * (SIZE // 801 + 1))


def attachment(data: str | bytes) -> list[flask_mail.Attachment]:
    return [flask_mail.Attachment("terms.pdf", "application/pdf", data)]


HEAVY: dict[str, Callable[[], AnyMessage]] = {
    "Flask-Mail, an attachment": lambda: flask_message(attachments=attachment(b"x" * SIZE)),
    "Flask-Mail, a text attached": lambda: flask_message(attachments=attachment("x" * SIZE)),
    "Flask-Mail, in base64 only": lambda: flask_message(attachments=attachment(b"x" * 6 * 10**6)),
    "Flask-Mail, several": lambda: flask_message(attachments=attachment(b"x" * (SIZE // 4)) * 4),
    "Flask-Mail, a body": lambda: flask_message(body="x" * SIZE),
    "Flask-Mail, HTML": lambda: flask_message(html="<p>" * (SIZE // 3)),
    "an attachment": lambda: attached(message()),
    "a text": lambda: message(text=("x" * 70 + "\n") * (SIZE // 71 + 1)),
    "a message forwarded": forwarded,
    "an old message": old,
    "a parsed one, not in ASCII": received,
}


def refused(work: Callable[[], object]) -> int:
    """Return the most memory that it took to refuse, in bytes."""
    tracemalloc.start()
    try:
        with pytest.raises(InvalidMessage, match=r"at least .* OUTBOX_MAX_SIZE allows") as caught:
            work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        assert caught.value.field == "message"


@pytest.fixture
def small(shops: Shops) -> Shop:
    return shops.open(OUTBOX_MAX_SIZE=MOST)


@pytest.mark.parametrize("kind", HEAVY)
def test_a_heavy_message_is_refused_in_little_memory(small: Shop, kind: str) -> None:
    with small.app.app_context(), small.session() as session:
        flask_mail.Mail(small.app)
        heavy = HEAVY[kind]()
        assert refused(lambda: small.outbox.enqueue(heavy, session=session)) < BOUND
        assert refused(lambda: small.outbox.enqueue_many([heavy], session=session)) < BOUND
        session.commit()
    assert small.statuses() == []


def test_a_heavy_newsletter_is_refused_in_little_memory(small: Shop) -> None:
    heavy = attached(newsletter())
    with small.session() as session:
        many = small.outbox.enqueue_many
        assert refused(lambda: many(heavy, ["a@x.example"], session=session)) < BOUND


def test_the_drop_in_refuses_a_heavy_message_in_little_memory(small: Shop) -> None:
    mail = OutboxMail(small.app)
    with small.app.app_context():
        heavy = flask_message(attachments=attachment(b"x" * SIZE))
        assert refused(lambda: mail.send(heavy)) < BOUND


@pytest.mark.parametrize("room", [0, 1])
def test_what_just_fits_is_taken(shops: Shops, room: int) -> None:
    """The early look refuses nothing that rendering would not."""
    light: list[AnyMessage] = [
        flask_message(body="x" * 500 + "\n"),
        flask_message(body="", attachments=attachment(b"x" * 500)),
        flask_message(attachments=[flask_mail.Attachment("a.eml", None, b"x: 17\r\n" * 900)]),
        message(text="ü" * 500, **{"Message-ID": "<1@shop.example>"}),
    ]
    for mail in light:
        shop = shops.open()
        with shop.app.app_context(), shop.session() as session:
            flask_mail.Mail(shop.app)
            size = shop.outbox.enqueue(mail, session=session).size
            session.rollback()
        tight = shops.open(OUTBOX_MAX_SIZE=size + room - 1)
        with tight.app.app_context(), tight.session() as session:
            flask_mail.Mail(tight.app)
            if room:
                tight.outbox.enqueue(mail, session=session)
                continue
            with pytest.raises(InvalidMessage, match=f"is {size} bytes"):
                tight.outbox.enqueue(mail, session=session)
