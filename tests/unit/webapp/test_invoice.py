"""The invoice is a PDF for every name that a person may have."""

from __future__ import annotations

import re
import zlib
from datetime import UTC, datetime

import pytest

from webapp.invoice import UNSHOWN, _is_plain, _Page, invoice
from webapp.models import Order, Product


def order(name: str, email: str = "ada@example.com") -> Order:
    ink = Product(slug="ink", name="Iron-gall ink", blurb="", price=1280)
    placed = datetime(2026, 5, 4, 12, tzinfo=UTC)
    return Order(
        id=7, product=ink, quantity=2, total=2560, name=name, email=email, placed_at=placed
    )


def streams(pdf: bytes) -> bytes:
    """Return what the pages say."""
    found = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL)
    return b"\n".join(zlib.decompress(one) for one in found if one.startswith(b"\x78"))


def test_an_invoice_says_who_bought_what_for_how_much() -> None:
    pdf = invoice(order("Ada Lovelace"))
    assert pdf.startswith(b"%PDF-")
    page = streams(pdf)
    for text in (b"Ada Lovelace", b"F-01007", b"Iron-gall ink", b"\x8025.60", b"04 May 2026"):
        assert text in page
    assert b"FontFile" not in pdf  # nothing to embed: it is small, and takes no time


@pytest.mark.parametrize(
    "name",
    ["Ευγενία Δημητρίου", "Лев Толстой", "محمد الخوارزمي", "דוד בן־גוריון", "王小明", "🦊 Fox",
     "ნინო", "प्रेमचंद", "\u202eevil", "a\u0301\u200d", "x" * 80, "王" * 80],
)  # fmt: skip
def test_no_name_breaks_the_invoice(name: str) -> None:
    pdf = invoice(order(name))
    assert pdf.startswith(b"%PDF-")
    assert pdf.rstrip().endswith(b"%%EOF")
    assert b"FontFile" in pdf or _is_plain(name)
    assert len(pdf) < 100_000  # an email's attachment: only the characters that it uses


def test_a_character_that_no_font_has_is_shown_as_a_question_mark() -> None:
    page = _Page(plain=False)
    assert page._shown("Лев 王") == f"Лев {UNSHOWN}"
    page.close_font()


def test_the_same_order_has_the_same_octets() -> None:
    assert invoice(order("Ada")) == invoice(order("Ada"))
    assert invoice(order("Лев")) == invoice(order("Лев"))
    assert invoice(order("Ada")) != invoice(order("Bob"))
