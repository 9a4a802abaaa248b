"""Messages as a user may make them, with hostile text in one or two of their places."""

from __future__ import annotations

import email
from dataclasses import dataclass, field
from email import policy
from email.message import EmailMessage, Message
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from typing import Any

import flask_mail
from hypothesis import strategies as st

from tests.fuzz.inputs.texts import ANY, HOSTILE, LINE_ENDS, around

KINDS = ("flask", "standard", "legacy", "parsed", "newsletter")
FROM, TO = "shop@shop.example", "ada@customers.example"


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What is handed to `enqueue`, or to `enqueue_many` for a newsletter."""

    kind: str
    values: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def message(self) -> Any:
        """Build it. A new one each time, because `enqueue` is to leave a message as it was."""
        return {
            "flask": _flask,
            "standard": lambda v: _standard(EmailMessage, v),
            "legacy": lambda v: _standard(Message, v),
            "parsed": _parsed,
            "newsletter": _newsletter,
        }[self.kind](self.values)

    @property
    def recipients(self) -> list[Any]:
        """A newsletter's recipients."""
        given = self.values.get("to", TO)
        return [TO, (self.values["name"], given) if "name" in self.values else given]


def _flask(values: dict[str, Any]) -> flask_mail.Message:
    get = values.get
    to: list[Any] = [get("to", TO)]
    if "name" in values:
        to.append((values["name"], "named@x.example"))
    extra = {get("header_name", "X-Own"): get("header", "v")}
    message = flask_mail.Message(
        subject=get("subject", "s"),
        recipients=to,
        body=get("body", "b"),
        html=get("html"),
        sender=get("sender", FROM),
        cc=[values["cc"]] if "cc" in values else None,
        bcc=[values["bcc"]] if "bcc" in values else None,
        reply_to=get("reply_to"),
        charset=get("charset"),
        extra_headers=extra if values.keys() & {"header", "header_name"} else None,
        mail_options=get("mail_options"),
        rcpt_options=get("rcpt_options"),
    )
    if "filename" in values:
        message.attach(values["filename"], get("content_type", "text/plain"), b"data")
    if "message_id" in values:
        message.msgId = values["message_id"]
    if "date" in values:
        message.date = values["date"]
    return message


_PLACES = {
    "sender": "From", "to": "To", "cc": "Cc", "bcc": "Bcc", "reply_to": "Reply-To",
    "subject": "Subject", "message_id": "Message-ID", "date": "Date", "name": "Sender",
}  # fmt: skip


_PEOPLE = frozenset({"sender", "to", "cc", "bcc", "reply_to", "name"})


def _headers(values: dict[str, Any], longest: int | None = None) -> dict[str, Any]:
    found = {"From": FROM, "To": TO}
    for place, value in values.items():
        if place in _PLACES:
            found[_PLACES[place]] = value[:longest] if place in _PEOPLE else value
    if values.keys() & {"header", "header_name"}:
        found[values.get("header_name", "X-Own")] = values.get("header", "v")
    return found


def _standard(kind: type[Message[Any, Any]], values: dict[str, Any]) -> Message[Any, Any]:
    message: Any = kind()
    body, filename = values.get("body", "b"), values.get("filename")
    if kind is EmailMessage:
        message.set_content(body, charset=values.get("charset") or "utf-8")
        if "html" in values:
            message.add_alternative(values["html"], subtype="html")
        if filename is not None:
            message.add_attachment(b"data", "application", "zip", filename=filename)
    elif filename is not None:
        message = MIMEMultipart()
        message.attach(MIMEText(str(body), "plain", "utf-8"))
        part: Message[Any, Any] = Message()
        part.set_payload("data")
        part.add_header("Content-Disposition", "attachment", filename=filename)
        message.attach(part)
    else:
        message.set_payload(body)
    # CPython parses addresses when they are set, and for very long ones it takes minutes.
    for name, value in _headers(values, 1500).items():
        try:
            message[name] = value
        except Exception:  # noqa: BLE001  (the policy refused it, so it goes in behind its back)
            message._headers.append((name, value))
    return message  # type: ignore[no-any-return]


def _parsed(values: dict[str, Any]) -> Message[Any, Any]:
    head = "".join(f"{name}: {value}\n" for name, value in _headers(values).items())
    if "filename" in values:
        head += f"Content-Disposition: attachment; {values['filename']}\n"
    raw = f"{head}\n{values.get('body', 'b')}".encode("utf-8", "surrogatepass")
    chosen: Any = values.get("policy", policy.default)
    return email.message_from_bytes(raw, policy=chosen)


def _newsletter(values: dict[str, Any]) -> EmailMessage:
    message = EmailMessage()
    message["From"] = FROM
    message["Subject"] = values.get("subject", "News")
    message.set_content("b")
    return message


def _kinds(*kinds: str, **places: st.SearchStrategy[Any]) -> st.SearchStrategy[Draft]:
    """Drafts of these kinds with one or two of these places filled."""
    names = sorted(places)
    chosen = st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)
    values = chosen.flatmap(lambda some: st.fixed_dictionaries({n: places[n] for n in some}))
    policies = st.sampled_from([policy.compat32, policy.default, policy.SMTP, policy.SMTPUTF8])
    return st.builds(
        lambda kind, filled, chosen: Draft(kind=kind, values=filled | {"policy": chosen}),
        st.sampled_from(kinds),
        values,
        policies,
    )


ADDRESSES = around(
    "ada@customers.example", "ada.b+c@x.example", '"ada b"@x.example', '"a\\"b"@x.example',
    "jö@x.example", "a@bücher.example", "jö@straße.example", "a@faß.de", "a@☃.example",
    "a@\u0627\u0628.example", "a@xn--bcher-kva.example", "a@XN--A.example", "a@e\u0301.example",
    "a@[127.0.0.1]", "a@[IPv6:::1]", "a@x", "a@x.example.", "a@x\u3002example", "a@1.2.3.4",
    "Ada <ada@x.example>", '"B, Ada" <ada@x.example>', "Ada B. <ada@x.example>", "<a@x.example>",
    "=?utf-8?q?J=C3=B6?= <j@x.example>", "Jö <j@x.example>", "a(comment)@x.example",
    "(c) Ada (d) <a(e)@(f)x.example> (g)", "undisclosed-recipients:;", "@relay.example:a@x.example",
    "friends: a@x.example, Ada <b@x.example>;", "a@x.example, b@x.example", "a @ x . example",
    f"{'l' * 64}@x.example", f"a@{'d' * 63}.example", f"a@{'.'.join(['d' * 60] * 4)}", "postmaster",
)  # fmt: skip

TEXTS = around(
    "Order 1", "Grüße aus Köln", "日本語の件名", "a  b", " a ", "word " * 40, "ü" * 60,
    "=?utf-8?q?J=C3=B6?=", "one\r\n two", "https://x.example/" + "a" * 90, "a: b", "Re: \u202eabc",
)  # fmt: skip

HEADER_NAMES = around(
    "X-Own", "X-Priority", "List-Unsubscribe", "References", "In-Reply-To", "Auto-Submitted",
    "Bcc", "Resent-Bcc", "Resent-To", "Content-Type", "Content-Transfer-Encoding", "MIME-Version",
    "DKIM-Signature", "Received", "Return-Path", "Subject", "to", "Delivered-To",
)  # fmt: skip

IDS = around("<1@x.example>", "<a.b@x>", "1@x.example", '<"a"@x>', "<a@[::1]>", "<a@b@c>", "<@>")
DATES: st.SearchStrategy[Any] = around("Thu, 01 Jan 2026 12:00:00 +0000", "yesterday")
SECONDS: st.SearchStrategy[Any] = st.floats() | st.integers() | st.none() | HOSTILE

FILE_NAMES = around(
    "invoice.pdf", "Rechnung März.pdf", "a b.txt", 'a"b.txt', "a\\b.txt", "a;b=c.txt", "100%.txt",
    "it's.txt", "../../etc/passwd", "C:\\evil.exe", "a%2fb%0d%0a.txt", "utf-8''a.txt", ".", "",
    "日本語.txt", "a\u202egpj.exe", "n" * 300, "ü" * 300, "a\u2028b", "CON", "a/b", " a ", "a.",
)  # fmt: skip

PARAMETERS = around(
    'filename="invoice.pdf"',
    "filename*=utf-8''M%C3%A4rz.pdf",
    "filename*0*=utf-8''M%C3;filename*1*=%A4",
    'filename="a\\"b"',
    "filename=a b",
    "filename*=utf-8''%0d%0aBcc%3a%20x",
    "filename*1=b;filename*0=a",
    "filename*=x''%ff",
    "filename*='",
    'filename="a',
    "filename*0*=a;filename*99999999=b",
    'filename="=?utf-8?q?=0D=0ABcc=3A_x?="',
    "filename*=utf-16''%00",
    "filename*=idna''xn--a",
)

_LINES = st.lists(
    st.sampled_from([*LINE_ENDS, ".", "..", "\0", "From x", "a" * 997, "a" * 999, "ü" * 500])
    | st.sampled_from(["--", "Bcc: evil@x.example", "\x1a", "\ud800", "€", "MAIL FROM:<>", " "]),
    max_size=12,
).map("".join)
BODIES: st.SearchStrategy[Any] = st.one_of(_LINES, ANY, HOSTILE)
CHARSETS = st.sampled_from(["us-ascii", "utf-8", "latin-1", "utf-7", "idna", "punycode", "rot13"])

addresses = st.one_of(
    _kinds("flask", "standard", "legacy", "parsed", sender=ADDRESSES, to=ADDRESSES, cc=ADDRESSES,
           bcc=ADDRESSES, reply_to=ADDRESSES, name=ADDRESSES),
    _kinds("newsletter", to=ADDRESSES, name=TEXTS),
)  # fmt: skip
headers = st.one_of(
    _kinds("standard", "legacy", "parsed", subject=TEXTS, header=TEXTS, header_name=HEADER_NAMES,
           message_id=IDS, date=DATES),
    _kinds("flask", subject=TEXTS, header=TEXTS, header_name=HEADER_NAMES, message_id=IDS,
           date=SECONDS, name=TEXTS),
    _kinds("newsletter", name=TEXTS, subject=TEXTS),
)  # fmt: skip
file_names = st.one_of(
    _kinds("flask", filename=FILE_NAMES, content_type=around("text/plain", "a/b; c=d", "a", "/")),
    _kinds("standard", "legacy", filename=FILE_NAMES),
    _kinds("parsed", filename=PARAMETERS),
)
bodies = st.one_of(
    _kinds("flask", "standard", body=BODIES, html=BODIES, charset=CHARSETS | HOSTILE),
    _kinds("legacy", "parsed", body=BODIES),
)
