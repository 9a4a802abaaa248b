"""What a message is meant to say, and how an app writes it: data, and three ways to write it."""

from __future__ import annotations

import email
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import EmailMessage, Message
from functools import cached_property
from typing import Any

import flask_mail

Pair = tuple[str, str]
"""A name, which may be empty, and an address."""
Given = Any
"""A `flask_mail.Message`, or one of the standard library."""

SHOP: Pair = ("", "shop@shop.example")
READER: Pair = ("", "reader@x.example")


@dataclass(frozen=True, kw_only=True)
class File:
    """A part that is no text: attached, or shown where HTML names its Content-ID."""

    name: str | None
    data: bytes = b"x"
    kind: str = "application/octet-stream"
    content_id: str = ""

    @property
    def disposition(self) -> str:
        return "inline" if self.content_id else "attachment"


@dataclass(frozen=True, kw_only=True)
class Meant:
    """What a person is to see. Texts are compared by their lines."""

    subject: str = "Your order"
    sender: Pair = SHOP
    to: tuple[Pair, ...] = (READER,)
    cc: tuple[Pair, ...] = ()
    bcc: tuple[Pair, ...] = ()
    reply_to: Pair | None = None
    text: str | None = None
    html: str | None = None
    others: Mapping[str, str] = field(default_factory=dict)  # alternatives: a subtype and its text
    files: tuple[File, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)  # headers, which Flask-Mail calls extra
    options: Mapping[str, Any] = field(default_factory=dict)  # what Flask-Mail alone can be told
    shown: Mapping[str, str] = field(default_factory=dict)  # addresses that have another form
    alone: bool = False  # of the standard library's messages none says it, or not so
    by_hand: Callable[[], Message[Any, Any]] | None = None  # how it is written, if not as all are

    @property
    def needs_smtputf8(self) -> bool:
        """Whether a local part is outside of ASCII (RFC 6531 §3.2)."""
        people = (self.sender, *self.to, *self.cc, *self.bcc, self.reply_to or SHOP)
        return not all(address.rpartition("@")[0].isascii() for _, address in people)

    def as_flask_mail(self, **changes: Any) -> flask_mail.Message:
        """Return it as an app writes it with Flask-Mail."""
        given: dict[str, Any] = {
            "subject": self.subject,
            "sender": _entry(self.sender),
            "recipients": [_entry(pair) for pair in self.to],
            "cc": [_entry(pair) for pair in self.cc],
            "bcc": [_entry(pair) for pair in self.bcc],
            "reply_to": self.reply_to and _entry(self.reply_to),
            "body": self.text,
            "html": self.html,
            "attachments": [_attachment(file) for file in self.files],
            "extra_headers": dict(self.fields),
            **self.options,
        }
        message = flask_mail.Message(**given | changes)
        message.alts = {**self.others, **message.alts}
        return message

    def as_standard(self) -> EmailMessage:
        """Return it as the standard library writes it; names are in UTF-8 and quoted."""
        message = EmailMessage()
        message["Subject"] = self.subject
        message["From"] = _mailbox(self.sender)
        for name, pairs in (("To", self.to), ("Cc", self.cc), ("Bcc", self.bcc)):
            if pairs:
                message[name] = ", ".join(map(_mailbox, pairs))
        if self.reply_to is not None:
            message["Reply-To"] = _mailbox(self.reply_to)
        for name, value in self.fields.items():
            message[name] = value
        texts = {"plain": self.text, **self.others, "html": self.html}
        for kind, text in texts.items():
            if text is not None and not message.get_content_type().startswith("multipart/"):
                add = message.set_content if not message.get_payload() else message.add_alternative
                add(text, subtype=kind)
            elif text is not None:
                message.add_alternative(text, subtype=kind)
        for file in self.files:
            _attach(message, file)
        return message

    def as_parsed(self) -> Message[Any, Any]:
        """Return it as a parser reads it from a file, in eight bits."""
        return email.message_from_bytes(self._octets)

    @cached_property
    def _octets(self) -> bytes:
        """As the standard library puts it into a file: it takes some ten times as long as we do."""
        return self.as_standard().as_bytes()

    def as_by_hand(self) -> Message[Any, Any]:
        """Return it as somebody wrote it for this meaning alone."""
        assert self.by_hand is not None
        return self.by_hand()


Writer = Callable[[Meant], Given]
WRITERS: dict[str, Writer] = {
    "Flask-Mail": Meant.as_flask_mail,
    "EmailMessage": Meant.as_standard,
    "a parser": Meant.as_parsed,
    "by hand": Meant.as_by_hand,
}


def can_say(writer: str, meant: Meant) -> bool:
    """Whether this writer has the words for it."""
    if meant.by_hand is not None or writer == "by hand":
        return (meant.by_hand is not None) == (writer == "by hand")
    if writer == "a parser" and (meant.needs_smtputf8 or meant.shown):
        return False  # the standard library's knows no RFC 6532
    return writer == "Flask-Mail" or not (meant.options or meant.alone)


def _entry(pair: Pair) -> str | Pair:
    return pair if pair[0] else pair[1]


def _mailbox(pair: Pair) -> str:
    name, address = pair
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}" <{address}>' if name else address


def _attachment(file: File) -> flask_mail.Attachment:
    headers = {"Content-ID": f"<{file.content_id}>"} if file.content_id else {}
    return flask_mail.Attachment(file.name, file.kind, file.data, file.disposition, headers)


def _attach(message: EmailMessage, file: File) -> None:
    kind, _, subtype = file.kind.partition("/")
    more: dict[str, Any] = {"cid": f"<{file.content_id}>"} if file.content_id else {}
    more |= {"filename": file.name} if file.name is not None else {}
    message.add_attachment(file.data, kind, subtype, disposition=file.disposition, **more)
