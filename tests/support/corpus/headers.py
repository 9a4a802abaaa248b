"""Subjects and other headers, long, strange and in every script."""

from __future__ import annotations

from tests.support.corpus.meant import Meant
from tests.support.corpus.texts import FAMILY

URL = "https://shop.example/leave?list=17&reader=" + "0123456789abcdef" * 12

_SUBJECTS = {
    "a long subject in emoji": "😀 " * 40 + "end",
    "a long subject in German": "Grüße an alle " * 20 + "end",
    "a long subject": "a plain subject " * 20 + "end",
    "a subject without blanks": "x" * 400,
    "a subject without blanks, in Chinese": "订单" * 150,
    "a subject of one word and 900 characters": "y" * 900,
    "a subject with emoji where it is folded": "a" * 33 + "😀" * 30 + FAMILY,
    "a subject like half of an encoded word": "how =?utf-8?q works",
    "a subject with question marks": "Really? =17? ?= yes",
    "a subject with two blanks": "two  blanks   three",
    "a subject with two blanks, in German": "zwei  Größen   drei",
    "a subject with colons": "Re: Fwd: AW: Order: 17",
    "a subject like another header": "Bcc: nobody@x.example",
    "a subject with quotes and backslashes": '"a" \\b\\ (c) <d@e.example>, ;',
    "a subject of one character": "ü",
    "a subject of a digit": "0",
    "a subject right to left": "طلب 17 \u200f(shop)",
    "a subject of combining characters": "e\u0301" * 60,
}


_ALONE = {
    "a subject in German like an encoded word": "Grüße =?utf-8?q?nein?=",
    "a subject in German that begins and ends with blanks": " Größe ",
    "a tab in a subject": "Order\t17",
    "a tab in a subject in UTF-8": "Größe\t17",
    "no subject": "",
}


def _plain(**fields: str) -> Meant:
    return Meant(text="x\n", fields={name.replace("_", "-"): fields[name] for name in fields})


HEADERS: dict[str, Meant] = {
    **{name: Meant(text="x\n", subject=subject) for name, subject in _SUBJECTS.items()},
    **{name: Meant(text="x\n", subject=subject, alone=True) for name, subject in _ALONE.items()},
    "a subject that the app has encoded": Meant(
        text="x\n", subject="nönö", options={"subject": "=?utf-8?q?n=C3=B6?= =?utf-8?b?bsO2?="}
    ),
    "a reply": _plain(
        In_Reply_To="<a.17@x.example>", References="<a.16@x.example> <a.17@x.example>"
    ),
    "a thread of forty": _plain(
        References=" ".join(f"<{n:04}.abcdefghij@x.example>" for n in range(40))
    ),
    "a newsletter's headers": _plain(
        List_Id="News <news.shop.example>",
        List_Unsubscribe="<https://shop.example/leave/17>, <mailto:leave@shop.example>",
        List_Unsubscribe_Post="List-Unsubscribe=One-Click",
    ),
    "a long URL to unsubscribe": _plain(List_Unsubscribe=f"<{URL}>"),
    "a list's name in German": _plain(List_Id="Größen und Maße <masse.shop.example>"),
    "a header of one's own": _plain(X_Order="17; state=paid"),
    "a header of one's own in German": _plain(X_Kunde="Jörg Müller, Köln"),
    "a header of one's own in Chinese, long": _plain(X_Order="订单编号" * 60),
    "a header of one's own of 900 characters": _plain(X_Token="t" * 900),
    "a header of one's own in JSON": _plain(X_SMTPAPI='{"category": ["order", "17"], "a": {}}'),
    "a header in capitals": _plain(X_MAILER="The Shop 1.0"),
    "importance": _plain(Importance="high", X_Priority="1 (Highest)"),
    "languages": _plain(Accept_Language="de, en"),
    "an automatic message": _plain(Auto_Submitted="auto-generated", Precedence="bulk"),
    "an organisation": _plain(Organization="Müller & Söhne GmbH"),
    "a date of one's own": _plain(Date="Fri, 01 Jan 2027 12:00:00 +0100"),
    "a Message-ID of one's own": _plain(Message_ID="<order-17.own@shop.example>"),
    "a date from Flask-Mail": Meant(text="x\n", options={"date": 1_798_804_800.0}),
    "a header of one's own with a tab": _plain(X_Order="17\tpaid"),
    "a header of one's own that is folded": Meant(
        text="x\n",
        fields={"X-Order": "17 paid and sent"},
        options={"extra_headers": {"X-Order": "17 paid\r\n and sent"}},
    ),
}
