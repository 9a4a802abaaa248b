"""Messages as users hand them over, each with what every reader has to see of it."""

from __future__ import annotations

import email
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import EmailMessage, Message
from typing import Any

import flask_mail

Pair = tuple[str, str]
"""A name, which may be empty, and an address."""
Given = Any
"""A `flask_mail.Message`, or one of the standard library."""

SHOP: Pair = ("", "shop@shop.example")
READER: Pair = ("", "reader@x.example")


@dataclass(frozen=True, kw_only=True)
class Meant:
    """What a person is to see. Texts are compared by their lines."""

    subject: str = "Your order"
    sender: Pair = SHOP
    to: tuple[Pair, ...] = (READER,)
    text: str | None = None
    html: str | None = None
    files: dict[str, bytes] = field(default_factory=dict)

    def as_flask_mail(self, **changes: Any) -> flask_mail.Message:
        """Return it as an app writes it with Flask-Mail."""
        files = [
            flask_mail.Attachment(name, "application/octet-stream", data)
            for name, data in self.files.items()
        ]
        given: dict[str, Any] = {
            "subject": self.subject,
            "sender": self.sender if self.sender[0] else self.sender[1],
            "recipients": [pair if pair[0] else pair[1] for pair in self.to],
            "body": self.text,
            "html": self.html,
            "attachments": files,
        }
        return flask_mail.Message(**given | changes)

    def as_standard(self) -> EmailMessage:
        """Return it as the standard library writes it; names are in UTF-8 and quoted."""
        message = EmailMessage()
        message["Subject"] = self.subject
        message["From"] = _mailbox(self.sender)
        message["To"] = ", ".join(map(_mailbox, self.to))
        if self.text is not None:
            message.set_content(self.text)
        if self.html is not None and self.text is not None:
            message.add_alternative(self.html, subtype="html")
        elif self.html is not None:
            message.set_content(self.html, subtype="html")
        for name, data in self.files.items():
            message.add_attachment(data, "application", "octet-stream", filename=name)
        return message

    def as_parsed(self) -> Message[Any, Any]:
        """Return it as a parser reads it from a file, in eight bits."""
        return email.message_from_bytes(self.as_standard().as_bytes())


def _mailbox(pair: Pair) -> str:
    name, address = pair
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}" <{address}>' if name else address


GERMAN = "Grüße aus Köln,\n\nvielen Dank für Ihre Bestellung über 17,50 €.\n-- \nJörg Müller\n"
CHINESE = "感谢您的订购。\n您的包裹将于明天送达。\n"
MEANT: dict[str, Meant] = {
    "a text": Meant(text="Thank you.\n"),
    "a text with odd lines": Meant(text="From me\n.\n..\n--x\n=3D=\n\n>From you\n\tü \nend\n"),
    "a long line": Meant(text="word " * 700 + "ü\n" + "x" * 1500 + "\n"),
    "German": Meant(text=GERMAN, html=f"<p>{GERMAN}</p>\n", subject="Grüße an Sie"),
    "Chinese": Meant(text=CHINESE, html=f"<p>{CHINESE}</p>\n", subject="您的订单 17"),
    "emoji": Meant(text="😀 👩\u200d🚀 🇩🇪\n", subject="😀 end"),
    "a long subject in emoji": Meant(text="x\n", subject="😀 " * 40 + "end"),
    "a long subject in German": Meant(text="x\n", subject="Grüße an alle " * 20 + "end"),
    "Arabic and Hebrew": Meant(text="شكرا لطلبك\nתדה על הזמנת\n", subject="شكرا لطلبك"),
    "HTML alone": Meant(html="<p>Grüße</p>\n"),
    "HTML alone, in ASCII": Meant(html="<p>hello</p>\n"),
    "a long subject": Meant(text="x\n", subject="a plain subject " * 20 + "end"),
    "names": Meant(
        text="x\n",
        sender=('Müller, Söhne "GmbH" & Co', "shop@shop.example"),
        to=(("Doe, Jo", "jo@x.example"), ("José (Pepe) Núñez", "pepe@x.example"), READER),
    ),
    "a Chinese name": Meant(text="x\n", sender=("北京书店", SHOP[1]), to=(("王小明", READER[1]),)),
    "many recipients": Meant(
        text="x\n", to=tuple((f"Größe {n}", f"r{n}@x.example") for n in range(60))
    ),
    "files": Meant(
        text=GERMAN,
        html="<p>x</p>\n",
        files={
            "terms.pdf": b"%PDF\0\xff\r\n.\r\n" * 99,
            "Grüße 😀.txt": "ü\n".encode(),
            "empty": b"",
        },
    ),
    "a file's name in quotes": Meant(text="x\n", files={'a "b"; c=d \\ e.txt': b"x"}),
    "a file's name of 109 Chinese characters": Meant(text="x\n", files={"字" * 109: b"x"}),
    "a file's name of 255 Chinese characters": Meant(text="x\n", files={"字" * 251 + ".pdf": b"x"}),
    "HTML and a file": Meant(html="<p>Grüße</p>\n", files={"größe.bin": bytes(range(256))}),
}
"""What is meant, whoever writes it."""

WRITERS: dict[str, Callable[[Meant], Given]] = {
    "Flask-Mail": Meant.as_flask_mail,
    "EmailMessage": Meant.as_standard,
    "a parser": Meant.as_parsed,
}
FLASK_MAIL_ALONE: dict[str, tuple[Meant, dict[str, Any]]] = {
    "a name like an encoded word": (Meant(text="x\n", sender=("=?utf-8?q?b?=", SHOP[1])), {}),
    "a tab in a subject": (Meant(subject="Order\t17", text="x\n"), {}),
    "a tab in a subject in UTF-8": (Meant(subject="Größe\t17", text="x\n"), {}),
    "Latin-1": (Meant(text=GERMAN.replace("€", "EUR")), {"charset": "iso-8859-1"}),
    "Japanese": (Meant(text="こんにちは\n", subject="日本"), {"charset": "iso-2022-jp"}),
}
"""What the standard library's messages do not say, or not so."""
