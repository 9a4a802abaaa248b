"""Messages whose parts somebody put together by hand, or a parser read so from a file."""

from __future__ import annotations

import email
from collections.abc import Callable
from email.message import EmailMessage, Message
from typing import Any

from tests.support.corpus.files import CALENDAR, PIXEL
from tests.support.corpus.meant import READER, SHOP, File, Meant
from tests.support.corpus.texts import CHINESE, GERMAN

_HEAD = (
    b"From: shop@shop.example\r\nTo: reader@x.example\r\nSubject: Your order\r\n"
    b"MIME-Version: 1.0\r\n"
)


def _read(octets: bytes) -> Callable[[], Message[Any, Any]]:
    return lambda: email.message_from_bytes(_HEAD + octets)


def _text(charset: str, text: str) -> Meant:
    head = f'Content-Type: text/plain; charset="{charset}"\r\nContent-Transfer-Encoding: 8bit\r\n'
    return Meant(text=text, by_hand=_read(head.encode() + b"\r\n" + text.encode(charset)))


def _plain(text: str = "", **headers: str) -> EmailMessage:
    message = EmailMessage()
    people = {"From": SHOP[1], "To": READER[1], "Subject": "Your order"}
    for name, value in (people | headers).items():
        message[name] = value
    if text:
        message.set_content(text)
    return message


def _related() -> EmailMessage:
    message = _plain("Look.\n")
    message.add_alternative("<img src='cid:a@shop.example'>\n", subtype="html")
    html: Any = message.get_payload()
    html[1].add_related(PIXEL, "image", "png", cid="<a@shop.example>", filename="ü.png")
    message.add_attachment(b"%PDF", "application", "pdf", filename="terms.pdf")
    return message


def _nested() -> EmailMessage:
    inner = EmailMessage()
    inner.set_content("deep\n")
    for _ in range(6):
        outer = EmailMessage()
        outer.make_mixed()
        outer.attach(inner)
        inner = outer
    for name, value in _plain().items():
        inner[name] = value
    return inner


def _forwarded() -> EmailMessage:
    message = _plain("See below.\n")
    message.add_attachment(_inner())
    return message


def _inner() -> EmailMessage:
    return _plain("The first one.\n", Subject="The first")


def _invited() -> EmailMessage:
    message = _plain("Come.\n")
    message.add_alternative(CALENDAR, subtype="calendar", params={"method": "REQUEST"})
    return message


_ALTERNATIVE = (
    'Content-Type: multipart/mixed; boundary="b 1"\r\n\r\nA preamble.\r\n--b 1\r\n'
    "Content-Type: multipart/alternative;\r\n boundary=b2\r\n\r\n--b2\r\n"
    "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
    "Grüße\r\n.\r\n--b2\r\nContent-Type: text/html; charset=utf-8\r\n"
    "Content-Transfer-Encoding: quoted-printable\r\n\r\n<p>Gr=C3=BC=C3=9Fe</p>=\r\n\r\n--b2--\r\n"
    "\r\n--b 1\r\nContent-Type: application/octet-stream\r\n"
    "Content-Disposition: attachment; filename*0*=utf-8''gr%C3%B6; filename*1=sse.bin\r\n"
    "Content-Transfer-Encoding: base64\r\n\r\nAAEC\r\n--b 1--\r\nAn epilogue.\r\n"
).encode()

STRUCTURE: dict[str, Meant] = {
    "eight bits in Latin-1": _text("iso-8859-1", "Grüße aus Köln\r\n.\r\nend\r\n"),
    "eight bits in UTF-8": _text("utf-8", GERMAN.replace("\n", "\r\n")),
    "eight bits in Chinese": _text("utf-8", CHINESE.replace("\n", "\r\n")),
    "eight bits in KOI8-R": _text("koi8-r", "Спасибо за заказ\r\n"),
    "eight bits in Shift-JIS": _text("shift_jis", "ご注文ありがとう、表\r\n"),
    "eight bits in GBK": _text("gbk", "感谢您的订购\r\n"),
    "eight bits on a line of 998 octets": _text("utf-8", "ü" * 499 + "\r\nend\r\n"),
    "parts by hand": Meant(
        text="Grüße\n.\n",
        html="<p>Grüße</p>",
        files=(File(name="grösse.bin", data=b"\0\1\2"),),
        by_hand=_read(_ALTERNATIVE),
    ),
    "no word of MIME": Meant(
        text="Thank you.\n",
        by_hand=lambda: email.message_from_string(
            "From: shop@shop.example\nTo: reader@x.example\nSubject: Your order\n\nThank you.\n"
        ),
    ),
    "related parts in an alternative": Meant(
        text="Look.\n",
        html="<img src='cid:a@shop.example'>\n",
        files=(
            File(name="ü.png", data=PIXEL, kind="image/png", content_id="a@shop.example"),
            File(name="terms.pdf", data=b"%PDF", kind="application/pdf"),
        ),
        by_hand=_related,
    ),
    "parts in parts, six deep": Meant(text="deep\n", by_hand=_nested),
    "a message in a message": Meant(
        text="See below.\n",
        files=(File(name=None, data=bytes(_inner()).strip(), kind="message/rfc822"),),
        by_hand=_forwarded,
    ),
    "an invitation by hand": Meant(text="Come.\n", others={"calendar": CALENDAR}, by_hand=_invited),
}
