"""The invoice is a PDF for every name that a person may have."""

from __future__ import annotations

import re
import zlib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen

from webapp.invoices import fonts
from webapp.invoices.invoice import UNSHOWN, _is_plain, _Page, invoice
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


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of those where the machine has its fonts."""
    monkeypatch.setattr(fonts, "FOLDERS", (tmp_path,))
    return tmp_path


def make_font(file: Path, characters: str) -> None:
    """Write a font in which each of these characters is a box."""
    pen = TTGlyphPen(None)
    for place, corner in enumerate([(0, 0), (0, 800), (800, 800), (800, 0)]):
        (pen.lineTo if place else pen.moveTo)(corner)
    pen.closePath()
    names = [".notdef", *(f"uni{ord(char):04X}" for char in characters)]
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({ord(char): f"uni{ord(char):04X}" for char in characters})
    builder.setupGlyf(dict.fromkeys(names, pen.glyph()))
    builder.setupHorizontalMetrics(dict.fromkeys(names, (1000, 0)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": file.stem, "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    file.parent.mkdir(parents=True, exist_ok=True)
    builder.save(file)


def written(pdf: bytes) -> str:
    """Return the characters that the invoice's fonts were embedded for."""
    codes = re.findall(rb"^<[0-9A-F]{4}> <([0-9A-F]{4})>$", pdf, re.MULTILINE)
    return "".join(chr(int(code, 16)) for code in codes)


def lines(name: str) -> str:
    """Return the name, and what follows the goods, as they would be drawn."""
    page = _Page(name)
    page.close_font()
    return page._shown(name) + page.note


@pytest.mark.usefixtures("machine")
def test_a_character_that_no_font_has_is_a_question_mark_and_the_invoice_says_so() -> None:
    assert lines("Лев 王").startswith(f"Лев {UNSHOWN}? stands for a character that no font")
    assert lines("Лев") == "Лев"
    assert lines("Ada") == "Ada"
    assert {"?", "Л"} <= set(written(invoice(order("Лев 王"))))
    assert "王" not in written(invoice(order("Лев 王")))


@pytest.mark.long
def test_the_machines_font_writes_what_the_shops_own_lacks(machine: Path) -> None:
    make_font(machine / "truetype/wqy/wqy-microhei.ttc", "王小明")
    make_font(machine / "unknown.ttf", "王小明김")
    pdf = invoice(order("Лев 王小明"))
    assert set("Лев王小明") <= set(written(pdf))
    assert lines("Лев 王小明") == "Лев 王小明"
    assert len(pdf) < 100_000
    assert invoice(order("Лев 王小明")) == pdf
    assert lines("王김").startswith(f"王{UNSHOWN}? stands")
    assert b"Other" not in invoice(order("Лев"))


def test_the_font_with_the_most_of_the_characters_is_taken(machine: Path) -> None:
    few, most = machine / "NotoSansCJK-Regular.ttc", machine / "malgun.ttf"
    make_font(few, "王")
    make_font(most, "김철수")
    assert fonts.of_the_machine("김철수王") == most
    assert fonts.of_the_machine("王") == few
    assert fonts.of_the_machine("🦊") is None
    assert fonts.of_the_machine("") is None


def test_a_folder_that_is_closed_to_the_shop_breaks_no_invoice(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd's ProtectHome= closes the home. A name that is too long fails for root, too."""
    make_font(machine / "malgun.ttf", "김철수")
    monkeypatch.setattr(fonts, "FOLDERS", (machine / ("x" * 300), machine))
    assert lines("Jan Dvořák") == "Jan Dvořák"
    assert lines("김철수") == "김철수"


def test_the_machines_folders_are_read_only_for_what_the_shops_own_font_lacks(
    machine: Path,
) -> None:
    """They are read once, so what comes later is found only if they were not read yet."""
    assert lines("Jan Dvořák") == "Jan Dvořák"
    make_font(machine / "malgun.ttf", "김철수")
    assert lines("김철수") == "김철수"


def test_the_same_order_has_the_same_octets() -> None:
    assert invoice(order("Ada")) == invoice(order("Ada"))
    assert invoice(order("Лев")) == invoice(order("Лев"))
    assert invoice(order("Ada")) != invoice(order("Bob"))
