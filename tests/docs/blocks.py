"""The fenced blocks of a page, with what the page says of each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import dedent

_FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>[^\s`]*).*?\n"
    r"(?P<text>.*?)^(?P=indent)(?P=fence)$",
    flags=re.DOTALL | re.MULTILINE,
)
_EXCUSE = re.compile(r"<!-- (not run|run by):? ([^>]+) -->\s*\Z")
_FILE = re.compile(r"(?:#|--|;|//|<!--) (add to )?((?:[\w.-]+/)*[\w-]*\.\w+)(?: -->)?\s*")
_BASE = re.compile(r"<!-- begins with (\S+) -->")


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block. Its first line may name the file that it is, or is added to."""

    language: str
    text: str
    line: int  # of its first line, in the page
    excuse: tuple[str, str] | None = None  # ("not run", why) or ("run by", a test's path)

    @cached_property
    def file(self) -> str:
        """The file that its first line names, or ""."""
        found = self._named
        return found[2] if found else ""

    @property
    def adds(self) -> bool:
        """Whether it is added to the end of its file, instead of being the whole file."""
        return bool(self._named and self._named[1])

    @property
    def _named(self) -> re.Match[str] | None:
        return _FILE.fullmatch(self.text.partition("\n")[0])

    @property
    def is_directive(self) -> bool:
        """Whether Sphinx reads it: a table of contents, or the text of docstrings."""
        return self.language.startswith("{")


def blocks_of(text: str) -> list[Block]:
    """Return the fenced blocks of a page's text, also those within lists."""
    return [
        Block(
            language=found["language"],
            text=dedent(found["text"]),
            line=text.count("\n", 0, found.start("text")) + 1,
            excuse=_excuse(text[: found.start()]),
        )
        for found in _FENCE.finditer(text)
    ]


def base_of(page: Path) -> Path | None:
    """Return the page whose files a page begins with, or None."""
    found = _BASE.search(page.read_text(encoding="utf-8"))
    return (page.parent / found[1]).resolve() if found else None


def _excuse(before: str) -> tuple[str, str] | None:
    found = _EXCUSE.search(before)
    return (found[1], found[2].strip()) if found else None
