"""An order's invoice as a PDF. The same order always has the same octets."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from datetime import UTC
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from fpdf import FPDF
from fpdf.enums import XPos, YPos
from fpdf.fonts import TTFFont

from .models import Order
from .pages.formats import euros

Colour: TypeAlias = tuple[int, int, int]

INK: Colour = (38, 34, 28)
FADED: Colour = (109, 100, 85)
RULE: Colour = (228, 218, 200)
RED: Colour = (178, 58, 43)
MARGIN = 24.0  # millimetres
_BELOW: dict[str, Any] = {"new_x": XPos.LMARGIN, "new_y": YPos.NEXT}

PLAIN = "cp1252"
"""What the fonts in every PDF reader can show. Any other text needs a font within the PDF."""


FONT = "FiraGO"
UNSHOWN = "?"
"""Stands for a character that no font here has, such as one of Chinese."""


def invoice(order: Order) -> bytes:
    """Return the invoice of a placed order."""
    page = _Page(plain=_is_plain(order.name + order.email))
    try:
        return _filled(page, order)
    finally:
        page.close_font()


def _filled(page: _Page, order: Order) -> bytes:
    page.set_title(f"Invoice {order.number}")
    page.set_author("Foolscap")
    page.set_creation_date(order.placed_at.replace(tzinfo=UTC))
    page.letterhead()
    page.facts(
        ("Invoice", order.number),
        ("Date", f"{order.placed_at:%d %B %Y}"),
        ("For", order.name),
        ("Sent to", order.email),
    )
    page.goods(order)
    return bytes(page.output())


class _Page(FPDF):
    """One sheet of A4 in the shop's colours."""

    def __init__(self, *, plain: bool) -> None:
        super().__init__(format="A4")
        self.set_margin(MARGIN)
        self.core_fonts_encoding = PLAIN
        self._family = "Times" if plain else FONT
        if not plain:
            self.add_font(FONT, fname=_font())
            self.set_text_shaping(True)  # joins the letters of Arabic and Devanagari
        self.add_page()

    def letterhead(self) -> None:
        """Write whose paper it is."""
        self.set_fill_color(*RED)
        self.rect(0, 0, self.w, 3, style="F")
        self._line("Foolscap", size=26)
        self._line("Paper goods by post", size=10, colour=FADED)
        self.ln(12)

    def facts(self, *facts: tuple[str, str]) -> None:
        """Write a name and a value in each line; a long value takes several lines."""
        for name, value in facts:
            self._style(10, FADED)
            self.cell(32, 7, name)
            self._style(11)
            self.multi_cell(0, 7, self._shown(value), align="L", **_BELOW)
        self.ln(10)

    def goods(self, order: Order) -> None:
        """Write what was bought, and what was paid."""
        self.set_draw_color(*RULE)
        self._row("Goods", "Price", "Total", colour=FADED)
        product = order.product
        goods = f"{order.quantity} \N{MULTIPLICATION SIGN} {product.name}"
        self._row(goods, euros(product.price), euros(order.total))
        self._row("Paid by card", "", euros(order.total), size=13)
        self.ln(10)
        self._line("Thank you. Nothing is to be paid any more.", size=10, colour=FADED)

    def close_font(self) -> None:
        """Close the font's file, which fpdf2 leaves open."""
        for font in self.fonts.values():
            if isinstance(font, TTFFont):
                font.close()

    def _row(self, *cells: str, size: int = 11, colour: Colour = INK) -> None:
        self._style(size, colour)
        left = self.epw - 2 * 34
        for text, width, align in zip(cells, (left, 34, 34), "LRR", strict=True):
            self.cell(width, 11, text, border="B", align=align)
        self.ln()

    def _line(self, text: str, *, size: int, colour: Colour = INK) -> None:
        self._style(size, colour)
        self.cell(0, size * 0.5, text, **_BELOW)

    def _style(self, size: int, colour: Colour = INK) -> None:
        self.set_font(self._family, size=size)
        self.set_text_color(*colour)

    def _shown(self, text: str) -> str:
        """Return the text with a question mark for each character that the font lacks."""
        if self._family != FONT:
            return text
        font = self.fonts[FONT.lower()]
        known = font.cmap if isinstance(font, TTFFont) else {}
        return "".join(char if ord(char) in known else UNSHOWN for char in text)


def _is_plain(text: str) -> bool:
    try:
        text.encode(PLAIN)
    except UnicodeEncodeError:
        return False
    return True


@cache
def _font() -> Path:
    """Return FiraGO: Latin, Greek, Cyrillic, Arabic, Hebrew, Thai, Georgian and Devanagari.

    The package holds it in memory, and fpdf2 reads files.
    """
    from pymupdf_fonts import fontbuffers

    folder = tempfile.mkdtemp(prefix="foolscap-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = Path(folder) / "FiraGO.ttf"
    file.write_bytes(fontbuffers["figo"]())
    return file
