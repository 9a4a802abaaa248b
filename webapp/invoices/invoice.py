"""An order's invoice as a PDF. The same order always has the same octets."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import Any, TypeAlias

from fpdf import FPDF
from fpdf.enums import XPos, YPos
from fpdf.fonts import TTFFont

from ..models import Order
from ..pages.formats import euros
from . import fonts

Colour: TypeAlias = tuple[int, int, int]

INK: Colour = (38, 34, 28)
FADED: Colour = (109, 100, 85)
RULE: Colour = (228, 218, 200)
RED: Colour = (178, 58, 43)
MARGIN = 24.0  # millimetres
_BELOW: dict[str, Any] = {"new_x": XPos.LMARGIN, "new_y": YPos.NEXT}

PLAIN = "cp1252"
"""What the fonts in every PDF reader can show. Any other text needs a font within the PDF."""


FONT, OTHER = "FiraGO", "Other"
"""The font within the PDF, and the machine's, for what the first one lacks."""
UNSHOWN = "?"
"""Stands for a character that no font here has."""
_LACKING = (
    f"{UNSHOWN} stands for a character that no font of our printer has."
    " The confirmation that came with this invoice has your name in full."
)


def invoice(order: Order) -> bytes:
    """Return the invoice of a placed order."""
    page = _Page(order.name + order.email)
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
    page.foot()
    return bytes(page.output())


class _Page(FPDF):
    """One sheet of A4 in the shop's colours."""

    def __init__(self, text: str) -> None:
        """Choose fonts that show this text, as far as there are any."""
        super().__init__(format="A4")
        self.set_margin(MARGIN)
        self.core_fonts_encoding = PLAIN
        self._family = "Times"
        self._lacking: set[str] = set()
        if not _is_plain(text):
            self._embed(text)
        self.add_page()

    def _embed(self, text: str) -> None:
        self._family = FONT
        self.add_font(FONT, fname=fonts.installed())
        self.set_text_shaping(True)  # joins the letters of Arabic and Devanagari
        self._lacking = _without(text, fonts.installed())
        other = fonts.of_the_machine(self._lacking)
        if other is not None:
            self.add_font(OTHER, fname=other)
            self.set_fallback_fonts([OTHER], exact_match=False)
            self._lacking = _without("".join(self._lacking), other)

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

    @property
    def note(self) -> str:
        """What stands for characters that cannot be written; "" where all can."""
        return _LACKING if self._lacking else ""

    def foot(self) -> None:
        """Write the note, if there is one."""
        if self.note:
            self._style(10, FADED)
            self.multi_cell(0, 5, self.note, align="L", **_BELOW)

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
        """Return the text with a question mark for each character that the fonts lack."""
        return "".join(UNSHOWN if char in self._lacking else char for char in text)


def _without(text: str, font: Path) -> set[str]:
    """Return the characters of the text that the font lacks."""
    known = fonts.known(font)
    return {char for char in text if ord(char) not in known}


def _is_plain(text: str) -> bool:
    try:
        text.encode(PLAIN)
    except UnicodeEncodeError:
        return False
    return True
