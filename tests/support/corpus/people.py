"""Names and addresses: what people are called, and where their email goes."""

from __future__ import annotations

from tests.support.corpus.meant import READER, SHOP, Meant, Pair

_SENDERS = {
    "a name with a comma": "Doe, Jo",
    "a name with quotes": 'Jo "the shop" Doe',
    "a name with backslashes": "C:\\shop\\mails",
    "a name with parentheses": "Jo (shop) Doe",
    "a name with an address": "jo@home.example",
    "a name with a colon and a semicolon": "Team: Jo; Al",
    "a name with a dot": "J. R. Doe Inc.",
    "a name with an apostrophe": "Seán O'Brien",
    "a name in German with a comma": "Müller, Jörg",
    "a name in German with quotes and an address": 'Jörg "a@b.example" Müller',
    "a name of 78 characters": ("Jo Doe " * 12)[:78],
    "a name of 200 characters": ("Jo of the Shop " * 14)[:199] + "e",
    "a name of 504 octets in Chinese": "北京书店" * 42,
    "a name of 500 characters without blanks": "J" * 500,
    "a name of emoji": "🛒 Shop 👩\u200d🚀",
    "a name right to left": "متجر الكتب",
    "a name in Thai": "ร้านหนังสือ",
    "a name in Japanese": "日本書店 東京",
    "a name of a digit": "17",
}


def _to(*people: Pair, cc: tuple[Pair, ...] = (), bcc: tuple[Pair, ...] = ()) -> Meant:
    return Meant(text="x\n", to=people, cc=cc, bcc=bcc)


PEOPLE: dict[str, Meant] = {
    "names": Meant(
        text="x\n",
        sender=('Müller, Söhne "GmbH" & Co', SHOP[1]),
        to=(("Doe, Jo", "jo@x.example"), ("José (Pepe) Núñez", "pepe@x.example"), READER),
    ),
    "a Chinese name": Meant(text="x\n", sender=("北京书店", SHOP[1]), to=(("王小明", READER[1]),)),
    **{
        name: Meant(text="x\n", sender=(sender, SHOP[1]), to=((sender, READER[1]),))
        for name, sender in _SENDERS.items()
    },
    "a name with an address in angles": _to(("Jo <jo@home.example>", READER[1])),
    "a name like an encoded word": Meant(
        text="x\n",
        sender=("=?utf-8?q?b?=", SHOP[1]),
        to=(("=?utf-8?q?b?=", READER[1]),),
        alone=True,
    ),
    "many recipients": _to(*((f"Größe {n}", f"r{n}@x.example") for n in range(60))),
    "many recipients without names": _to(*(("", f"reader{n}@x.example") for n in range(100))),
    "a copy": _to(READER, cc=(("Boss, The", "boss@x.example"), ("Jörg", "joerg@x.example"))),
    "a blind copy": _to(READER, bcc=(("", "hidden@x.example"),)),
    "a blind copy to a name": _to(READER, bcc=(("Verborgen, Ü", "hidden@x.example"),)),
    "a copy and a blind copy": _to(
        READER, cc=(("", "boss@x.example"),), bcc=(("", "hidden@x.example"),)
    ),
    "answers elsewhere": Meant(text="x\n", reply_to=("Fragen & Antworten", "ask@shop.example")),
    "answers to a name in German": Meant(text="x\n", reply_to=("Für, Sie", "ask@shop.example")),
    "a plus and a dash": _to(("", "jo+order-17@x-y.example")),
    "strange letters in a local part": _to(("", "!#$%&'*+/=?^_`{|}~-@x.example")),
    "a quoted local part": _to(("Jo", '"jo doe"@x.example')),
    "a local part of 64 octets": _to(("Jo", "j" * 64 + "@x.example")),
    "capitals": _to(("Jo", "Jo.DOE@x.example")),
    "a domain of one's own script": Meant(
        text="x\n",
        to=(("Jörg", "joerg@bücher.example"), ("", "wang@例子.example")),
        shown={
            "joerg@bücher.example": "joerg@xn--bcher-kva.example",
            "wang@例子.example": "wang@xn--fsqu00a.example",
        },
    ),
    "a sender's domain of one's own script": Meant(
        text="x\n",
        sender=("Bücher", "shop@bücher.example"),
        shown={"shop@bücher.example": "shop@xn--bcher-kva.example"},
    ),
    "a domain with a sharp s": Meant(
        text="x\n",
        to=(("", "jo@straße.example"),),
        shown={"jo@straße.example": "jo@xn--strae-oqa.example"},
    ),
    "a local part in German": _to(("Jörg", "jörg@x.example")),
    "a local part in Chinese": _to(("王小明", "小明@x.example"), READER),
    "a sender's local part in Greek": Meant(
        text="Ευχαριστούμε\n", sender=("", "πώληση@shop.example")
    ),
    "a local part in Arabic and a subject": Meant(
        text="شكرا\n", subject="شكرا لطلبك", to=(("زبون, أول", "زبون@x.example"),)
    ),
}
