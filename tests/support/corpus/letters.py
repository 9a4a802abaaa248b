"""What shops really send: orders, codes, newsletters, invoices."""

from __future__ import annotations

from tests.support.corpus.files import CALENDAR, PIXEL
from tests.support.corpus.meant import File, Meant

_AMP = "<!doctype html><html ⚡4email><head></head><body>17 items</body></html>\n"
_ROWS = "".join(
    f'<tr><td style="padding:8px">Tinte № {n}</td><td>{n},50&nbsp;€</td></tr>\n' for n in range(40)
)
_STYLE = "<style>" + "td{font:14px/1.4 Arial,sans-serif;color:#333}" * 30 + "</style>"

LETTERS: dict[str, Meant] = {
    "an order": Meant(
        subject="Ihre Bestellung Nr. 2026-1117 – Bestätigung",
        sender=("Tinte & Feder", "shop@shop.example"),
        to=(("Jörg Müller", "joerg@x.example"),),
        reply_to=("Kundendienst", "hilfe@shop.example"),
        text="Hallo Jörg,\n\nwir haben Ihre Bestellung erhalten.\n\nSumme: 820,00 €\n",
        html=f"<html><head>{_STYLE}</head><body><table>{_ROWS}</table></body></html>\n",
        fields={"X-Order": "2026-1117", "Auto-Submitted": "auto-generated"},
    ),
    "a one-time code": Meant(
        subject="483 920 is your code",
        sender=("Shop", "no-reply@shop.example"),
        text="483 920\n\nIt is valid for ten minutes. Nobody of us will ask you for it.\n",
    ),
    "a new password": Meant(
        subject="Set a new password",
        text="https://shop.example/reset?token=" + "eyJhbGciOi.JIUzI1NiJ9_" * 20 + "&x=1\n",
        html='<a href="https://shop.example/reset?token=' + "eyJhbGciOi" * 60 + '=">Set it</a>\n',
    ),
    "a newsletter": Meant(
        subject="🎉 Neue Tinten – nur heute −20 %",
        sender=("Tinte & Feder", "news@shop.example"),
        text="Hallo!\n\nNeue Tinten: https://shop.example/?utm_source=mail&x=ü\n",
        html=f"<html><body>{_ROWS * 5}<img src='https://shop.example/p.gif'></body></html>\n",
        fields={
            "List-Id": "Neuigkeiten <news.shop.example>",
            "List-Unsubscribe": "<https://shop.example/leave/17>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        },
    ),
    "an invoice": Meant(
        subject="Rechnung 2026-1117",
        sender=("Müller, Söhne & Co. KG", "rechnung@shop.example"),
        to=(("Buchhaltung", "kreditoren@x.example"),),
        cc=(("Jörg Müller", "joerg@x.example"),),
        text="Anbei die Rechnung.\n-- \nMüller, Söhne & Co. KG\n",
        html="<p>Anbei die Rechnung.</p>\n",
        files=(
            File(
                name="Rechnung 2026-1117 (Müller).pdf", data=b"%PDF-1.7\n\xe2\xe3\xcf\xd3\n" * 900
            ),
            File(name="factur-x.xml", data=b"<?xml version='1.0'?><a/>", kind="application/xml"),
        ),
    ),
    "a receipt in Japanese": Meant(
        subject="【領収書】ご注文番号 1117",
        sender=("株式会社 文具店", "shop@shop.example"),
        to=(("田中 太郎 様", "tanaka@x.example"),),
        text="田中 太郎 様\n\n合計：17,500円（税込）\n",
        files=(File(name="領収書_1117.pdf", data=b"%PDF-1.7\n", kind="application/pdf"),),
    ),
    "a parcel on its way": Meant(
        subject="Your parcel is on its way",
        text="Tracking: 00340434161094000000\n",
        html=f'<p>Today<img src="cid:map@shop.example"></p>{_STYLE}\n',
        files=(File(name="map.png", data=PIXEL, kind="image/png", content_id="map@shop.example"),),
    ),
    "AMP beside HTML": Meant(
        text="17 items\n", html="<p>17 items</p>\n", others={"x-amp-html": _AMP}
    ),
    "an invitation": Meant(
        subject="Abholung am 1. Januar",
        text="Kommen Sie?\n",
        html="<p>Kommen Sie?</p>\n",
        others={"calendar": CALENDAR.replace("\r\n", "\n")},
    ),
    "a report of an error": Meant(
        subject="[shop] ERROR: KeyError: 'größe' in /orders",
        sender=("root", "root@shop.example"),
        text="Traceback (most recent call last):\n  File \"a.py\", line 1\n.\nKeyError: 'größe'\n",
    ),
    "a message in a form": Meant(
        subject="Contact: <script>alert(1)</script>",
        reply_to=("Robert'); DROP TABLE;--", "bob@x.example"),
        text="{{ 7*7 }} ${x} <script>\n\r\nBcc: all@x.example\n",
    ),
}
