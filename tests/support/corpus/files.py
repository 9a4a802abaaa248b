"""Attachments: names of every kind, and contents that must arrive octet for octet."""

from __future__ import annotations

from tests.support.corpus.meant import File, Meant
from tests.support.corpus.texts import GERMAN

_NAMES = {
    "a file's name in quotes": 'a "b"; c=d \\ e.txt',
    "a file's name of 109 Chinese characters": "字" * 109,
    "a file's name of 255 Chinese characters": "字" * 251 + ".pdf",
    "a file's name with blanks": "my order 17 .pdf",
    "a file's name with slashes": "orders/2026\\17.pdf",
    "a file's name with percent signs": "100%25 %41 off%.pdf",
    "a file's name like RFC 2231": "utf-8''%e2%82%ac.pdf",
    "a file's name with an apostrophe": "Jo's order.pdf",
    "a file's name with a semicolon": "a; filename=b.pdf",
    "a file's name beyond the first plane": "𠮷野家 👩\u200d🚀.pdf",
    "a file's name right to left": "فاتورة 17.pdf",
    "a file's name that reverses": "invoice\u202efdp.exe",
    "a file's name in Thai": "ใบเสร็จรับเงิน.pdf",
    "a file's name of 255 characters": "x" * 251 + ".pdf",
    "a file's name of 900 characters": "y" * 896 + ".pdf",
    "a file's name with an accent apart": "re\u0301sume\u0301.pdf",
    "a file's name without a type": "README",
    "a file's name that begins with a dot": ".htaccess",
    "a file's name with a comma and parentheses": "a, b (1) [2] {3}.pdf",
    "a file's name with two blanks": "two  blanks.pdf",
    "a file's name of a star and a number": "filename*0*=x.pdf",
}
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c6360f8cfc0f01f00050001ff8999dd1d0000000049454e44ae426082"
)
CALENDAR = (
    "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nMETHOD:REQUEST\r\nBEGIN:VEVENT\r\nUID:17@shop.example\r\n"
    "DTSTART:20270101T120000Z\r\nSUMMARY:Abholung in Köln\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
)
_FIRST = (
    "From: jo@x.example\nTo: shop@shop.example\nSubject: The first\nMIME-Version: 1.0\n"
    "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 7bit\n\nMay I have two?"
)


def _with(*files: File) -> Meant:
    return Meant(text="See the file.\n", files=files)


FILES: dict[str, Meant] = {
    **{name: _with(File(name=file)) for name, file in _NAMES.items()},
    "files": Meant(
        text=GERMAN,
        html="<p>x</p>\n",
        files=(
            File(name="terms.pdf", data=b"%PDF\0\xff\r\n.\r\n" * 99, kind="application/pdf"),
            File(name="Grüße 😀.txt", data="ü\n".encode()),
            File(name="empty", data=b""),
        ),
    ),
    "HTML and a file": Meant(
        html="<p>Grüße</p>\n", files=(File(name="größe.bin", data=bytes(range(256))),)
    ),
    "a file's name like an encoded word": Meant(
        text="x\n", files=(File(name="=?utf-8?q?a?=.pdf"),), alone=True
    ),
    "the same name twice": _with(
        File(name="order.pdf", data=b"one"), File(name="order.pdf", data=b"two")
    ),
    "a file without a name": _with(File(name=None, data=b"\0\1\2")),
    "a file of 600,000 octets": _with(File(name="big.bin", data=bytes(range(256)) * 2350)),
    "a file of 57 octets": _with(File(name="line.bin", data=b"\xfe" * 57)),
    "a file of line ends": _with(File(name="ends.bin", data=b"\r\n\r\r\n\n.\r\n.\n\r")),
    "a file in text": _with(File(name="notes.txt", data=b"one\r\ntwo\n.\n", kind="text/plain")),
    "a file in CSV": _with(
        File(name="orders.csv", data="№;größe\n1;x\n".encode(), kind="text/csv")
    ),
    "a file in HTML": _with(File(name="page.html", data=b"<p>hello</p>", kind="text/html")),
    "a file in JSON": _with(File(name="17.json", data=b'{"a": 1}', kind="application/json")),
    "a file in XML": _with(File(name="17.xml", data=b"<a/>", kind="application/xml")),
    "a message attached as octets": Meant(
        text="See below.\n",
        files=(File(name=None, data=_FIRST.encode(), kind="message/rfc822"),),
        alone=True,  # EmailMessage encodes octets of a message; notmuch tells no name of one
    ),
    "a picture": _with(File(name="pixel.png", data=PIXEL, kind="image/png")),
    "a calendar as a file": _with(
        File(name="visit.ics", data=CALENDAR.encode(), kind="text/calendar")
    ),
    "twenty files": _with(*(File(name=f"{n:02}.bin", data=bytes([n]) * n) for n in range(20))),
    "a picture in HTML": Meant(
        text="Look.\n",
        html='<p>Look: <img src="cid:logo.17@shop.example"></p>\n',
        files=(
            File(name="logo.png", data=PIXEL, kind="image/png", content_id="logo.17@shop.example"),
        ),
    ),
    "a picture in HTML, and a file": Meant(
        html='<p>Größe: <img src="cid:a@shop.example"><img src="cid:b@shop.example"></p>\n',
        files=(
            File(name="größe.png", data=PIXEL, kind="image/png", content_id="a@shop.example"),
            File(name="b.gif", data=b"GIF89a", kind="image/gif", content_id="b@shop.example"),
            File(name="terms.pdf", data=b"%PDF", kind="application/pdf"),
        ),
    ),
    "a picture without a name": Meant(
        html='<img src="cid:a@shop.example">\n',
        files=(File(name=None, data=PIXEL, kind="image/png", content_id="a@shop.example"),),
    ),
}
