"""The suppression list as a file: an address in each line, and the reason behind a comma.

Where a spreadsheet writes semicolons in the place of commas, it is read as well.

A spreadsheet takes a cell that begins with `=`, `+`, `-` or `@` for a formula. So such a cell gets
an apostrophe before it, which is taken off again when the file is read. A spreadsheet may split the
file at semicolons, so behind each one the same is done. Quotes that follow it begin a cell there,
and may be no part of it. So the apostrophe stands behind them.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from itertools import islice

from ...domain.errors import InvalidMessage
from ...domain.header.address import check_address
from ...flask_ext.management.management import Management

MOST_OCTETS = 1_000_000
MOST_LINES = 10_000
"""A longer file is brought in in parts, so that no request takes over a second."""
MOST_TOLD = 100
"""How many wrong lines are told."""

_CHUNK = 1000
_FORMULA = re.compile(r"((?:^|;)\"*)(?=[=+\-@'])")
_MARKED = re.compile(r"((?:^|;)\"*)'(?=[=+\-@'])")
_HEADING = ["address", "reason"]


@dataclass(frozen=True, kw_only=True)
class Report:
    """What came of a file."""

    added: int
    known: int  # addresses that were on the list already, or twice in the file
    wrong: tuple[tuple[int, str], ...]  # the number of a line, and what is wrong with it


def read_in(octets: bytes, *, by: str) -> Report:
    """Put the addresses of a file on the list; tell which lines are wrong.

    Raises InvalidMessage for a file that is too long or no text, or has a quote that its line does
    not close: then nothing is added.
    """
    rows = list(_rows(_text(octets)))
    if not rows:
        raise InvalidMessage("file", "has no line with an address")
    pairs = [(cells[0], cells[1] if len(cells) > 1 else "") for _, cells in rows]
    done = Management().suppress_many(pairs, by=by)
    told = [(rows[place][0], rule) for place, rule in done.wrong.items()]
    return Report(added=done.added, known=done.known, wrong=tuple(told))


def _text(octets: bytes) -> str:
    if len(octets) > MOST_OCTETS:
        raise InvalidMessage("file", "has over 1 MB: bring it in in parts")
    try:
        text = octets.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidMessage("file", "must be text in UTF-8, such as CSV") from None
    # Before any line is examined, which takes longer.
    if any(line.strip() for line in islice(_lines(text), MOST_LINES, None)):
        raise InvalidMessage("file", f"has over {MOST_LINES} lines: bring it in in parts")
    return text


def _lines(text: str) -> Iterator[str]:
    """Yield the lines as CSV has them: `splitlines` would end one at a form feed, too."""
    return StringIO(text, newline="")


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines that are not empty, with their numbers; a heading is passed over."""
    reader = csv.reader(_lines(text), delimiter=_delimiter(text), strict=False)
    line = 1
    try:
        for cells in reader:
            if reader.line_num > line:  # the rest of the file may be in this one cell
                fault = f'has a quote (") that line {line} opens and does not close'
                raise InvalidMessage("file", fault)
            found = [_plain(cell.strip()) for cell in cells]
            if any(found) and not (line == 1 and found[0].lower() == "address"):
                yield line, found
            line += 1
    except csv.Error as error:
        raise InvalidMessage("file", f"cannot be read as CSV, line {line}") from error


def _delimiter(text: str) -> str:
    """Return what ends the first address of a line: a spreadsheet's language decides it."""
    for line in islice(_lines(text), MOST_LINES):
        for delimiter in ",;":
            if _begins_with_an_address(line, delimiter):
                return delimiter
    return ","


def _begins_with_an_address(line: str, delimiter: str) -> bool:
    try:
        cells = next(csv.reader([line], delimiter=delimiter), []) or [""]
        check_address(_plain(cells[0].strip()), "address")
    except (csv.Error, InvalidMessage):
        return False
    return True


def lines() -> Iterator[str]:
    """Yield the whole list as CSV."""
    yield _line(_HEADING)
    after = None
    while found := Management().suppressed(after=after, limit=_CHUNK):
        for one in found:
            yield _line([one.address, one.reason])
        after = found[-1].address


def _line(cells: list[str]) -> str:
    made = StringIO(newline="")
    csv.writer(made).writerow(map(_marked, cells))
    return made.getvalue()


def _marked(cell: str) -> str:
    return _FORMULA.sub(r"\1'", cell)


def _plain(cell: str) -> str:
    return _MARKED.sub(r"\1", cell)
