"""For any text in any field: refused, or a header block with exactly the expected headers."""

from __future__ import annotations

import email
import re
from collections import Counter
from collections.abc import Callable
from email import policy
from email.message import EmailMessage, Message
from typing import Any

import flask_mail
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from outbox.domain.errors import InvalidMessage
from outbox.domain.message.personalize import individuals, message_ids
from outbox.domain.message.render import RenderedMessage, render, render_shared
from outbox.domain.mime.line_endings import MAX_TEXT_LINE
from outbox.flask_ext.messages.convert import standard

ATTACK = [
    "\r\n", "\n", "\r", "\0", "\u2028", "\x85", "\ud800", "\udc80", " ", "\t", ":", ",", ";", "<",
    ">", "@", '"', "\\", "(", ")", "[", "=?utf-8?q?", "=0D=0A", "?=", "Bcc: evil@x.example", "a",
    "ü", "€", "😀", "@b.example", "x" * 80, "x" * 1000, "word " * 40, "\r\n ", "%0D%0A", "''",
]  # fmt: skip
NASTY = st.lists(st.sampled_from(ATTACK), max_size=6).map("".join) | st.text(max_size=30)
EXPECTED = {
    "Content-Type", "MIME-Version", "Content-Transfer-Encoding", "Subject", "From", "To", "Cc",
    "Date", "Message-ID", "Reply-To", "X-Own", "Sender", "Content-Disposition",
}  # fmt: skip
NEVER = settings(max_examples=settings().max_examples * 3 // 2)

pytestmark = pytest.mark.usefixtures("flask_mail_context")


def check_wire(mail: RenderedMessage, expected: set[str]) -> None:
    """Look at the bytes with a reader of our own, and with Python's."""
    data = mail.headers + mail.content
    assert not re.search(rb"(?<!\r)\n|\r(?!\n)", data)
    assert data.endswith(b"\r\n")
    assert max(map(len, data.split(b"\r\n"))) <= MAX_TEXT_LINE
    block, _, _ = data.partition(b"\r\n\r\n")
    assert b"\0" not in block
    fields = re.split(rb"\r\n(?![ \t])", block)
    names = [field.partition(b":")[0].decode("ascii") for field in fields]
    assert all(re.match(rb"[!-9;-~]+:", field) for field in fields)
    assert Counter(names) == Counter(set(names)), "a header stands twice"
    assert set(names) <= expected
    assert not {"bcc", "resent-bcc"} & {name.lower() for name in names}
    parsed = email.message_from_bytes(data, policy=policy.compat32)
    assert parsed.keys() == names
    assert mail.size == len(data)
    assert mail.eightbit is not data.isascii()
    assert mail.recipients
    if not all(map(str.isascii, (mail.sender, *mail.recipients))):
        assert mail.smtputf8


def attempt(make: Callable[[], Message[Any, Any]]) -> RenderedMessage | None:
    """Return the email, or None where it was refused: no other exception passes."""
    try:
        return render(make(), send_at=None, max_size=10**6, split_size=10**6)
    except InvalidMessage as error:
        assert error.field  # noqa: PT017  (the other branch is as good)
        assert error.rule  # noqa: PT017
        return None


FIELDS = [
    "subject", "body", "html", "sender", "reply_to", "charset", "recipients", "cc", "bcc", "name",
    "header_name", "header_value", "msg_id", "filename", "content_type", "disposition", "data",
    "alternative",
]  # fmt: skip


def composed(values: dict[str, str]) -> Message[Any, Any]:
    get = values.get
    attachments = []
    if values.keys() & {"filename", "content_type", "disposition", "data"}:
        attachments = [
            flask_mail.Attachment(
                get("filename", "a.txt"), get("content_type", "text/plain"), get("data", "x"),
                get("disposition"),
            )
        ]  # fmt: skip
    recipients: list[str | tuple[str, str]] = ["to@b.example"]
    if "recipients" in values:
        recipients.append(values["recipients"])
    if "name" in values:
        recipients.append((values["name"], "named@b.example"))
    extra = {}
    if values.keys() & {"header_name", "header_value"}:
        extra = {get("header_name", "X-Own"): get("header_value", "v")}
    message = flask_mail.Message(
        subject=get("subject", "s"),
        body=get("body", "b"),
        html=get("html"),
        sender=get("sender") or "from@b.example",
        reply_to=get("reply_to"),
        charset=get("charset"),
        recipients=recipients,
        cc=[values["cc"]] if "cc" in values else None,
        bcc=[values.get("bcc", "secret@b.example")],
        attachments=attachments,
        extra_headers=extra,
    )
    if "alternative" in values:
        message.alts[values["alternative"]] = "x"
    if "msg_id" in values:
        message.msgId = values["msg_id"]
    return standard(message)


@NEVER
@given(st.dictionaries(st.sampled_from(FIELDS), NASTY, min_size=1, max_size=2))
@example({"recipients": "(" * 3000 + "@x"})
@example({"name": "=?utf-8?q?a=0D=0ABcc=3A_evil=40x.example?="})
@example({"recipients": "jö@b.example"})
@example({"data": "\ud800"})
@example({"header_name": "Bcc", "header_value": "evil@x.example"})
def test_no_text_in_a_flask_mail_message_makes_a_header(values: dict[str, str]) -> None:
    mail = attempt(lambda: composed(values))
    if mail is None:
        return
    extra = {values["header_name"]} if "header_name" in values else set()
    if extra & EXPECTED:  # the user asked for a second one
        return
    check_wire(mail, EXPECTED | extra)


@pytest.mark.parametrize("field", FIELDS)
@settings(NEVER, max_examples=min(40, settings().max_examples))
@given(NASTY)
def test_no_text_in_one_field_leaves_anything_but_a_refusal(field: str, text: str) -> None:
    mail = attempt(lambda: composed({field: text}))
    if mail is not None and field != "header_name":
        check_wire(mail, EXPECTED)


MODERN = ["Subject", "From", "Sender", "To", "Cc", "Bcc", "Reply-To", "X-Own", "Message-ID", "Date"]


def built(kind: type[Message[Any, Any]], headers: dict[str, str]) -> Message[Any, Any]:
    message = kind()
    for name, value in {"From": "a@b.example", "To": "c@d.example", **headers}.items():
        try:
            message[name] = value
        except Exception:  # noqa: BLE001  (the policy refused it before we could)
            message._headers.append((name, value))  # type: ignore[attr-defined]
    message.set_payload("hello")
    return message


@pytest.mark.parametrize("kind", [EmailMessage, Message])
@NEVER
@given(headers=st.dictionaries(st.sampled_from(MODERN), NASTY, min_size=1, max_size=3))
def test_no_text_in_a_standard_message_makes_a_header(
    kind: type[Message[Any, Any]], headers: dict[str, str]
) -> None:
    mail = attempt(lambda: built(kind, headers))
    if mail is not None:
        check_wire(mail, EXPECTED | {"Content-Transfer-Encoding"})


@NEVER
@given(
    st.dictionaries(st.sampled_from(MODERN), NASTY | st.binary(max_size=20), max_size=4),
    NASTY,
    st.sampled_from([policy.compat32, policy.default, policy.SMTPUTF8]),
)
@example(
    {"To": "=?utf-8?q?a=0D=0ABcc=3A_evil?= <c@d.example>" + ", x@y.example" * 20}, "", policy.SMTP
)
def test_no_octets_in_a_parsed_message_make_a_header(
    headers: dict[str, str | bytes], body: str, parser: policy.Policy[Any]
) -> None:
    raw = b""
    for name, value in {"From": "a@b.example", "To": "c@d.example", **headers}.items():
        octets = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
        raw += name.encode() + b": " + re.sub(rb"[\r\n]+", b"\n ", octets) + b"\n"
    raw += b"\n" + body.encode("utf-8", "surrogatepass")
    message = email.message_from_bytes(raw, policy=parser)
    keys = set(message.keys())
    mail = attempt(lambda: message)
    if mail is not None:
        check_wire(mail, EXPECTED | keys)


@NEVER
@given(st.lists(st.tuples(NASTY, NASTY | st.just("a@b.example")) | NASTY, max_size=3))
@example([("a\u2028Bcc: evil@x.example", "a@b.example")])
@example([("a\x85b", "a@b.example")])
@example([("n" * 1200, "a@b.example")])
@example([("Jö", "jö@b.example")])
def test_no_name_in_a_newsletter_makes_a_header(recipients: list[Any]) -> None:
    message = EmailMessage()
    message["From"], message["Subject"] = "a@b.example", "news"
    message.set_content("hi")
    sender, body, smtputf8 = render_shared(message, send_at=None, max_size=10**6)
    for recipient in recipients:
        try:
            (mail,) = individuals(
                [recipient], message_ids(sender), sender=sender, content=body, smtputf8=smtputf8
            )
        except InvalidMessage as error:
            assert error.field == "recipients"  # noqa: PT017  (the other branch is as good)
            continue
        check_wire(mail, EXPECTED)
