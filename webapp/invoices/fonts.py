"""The fonts of the invoices: one that the demo installs, and what the machine has besides."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Collection
from functools import cache
from pathlib import Path

from fontTools.ttLib import TTFont

_HOME = Path.home()
FOLDERS = (
    Path("/usr/share/fonts"),
    Path("/usr/local/share/fonts"),
    _HOME / ".local/share/fonts",
    _HOME / ".fonts",
    Path("/System/Library/Fonts"),
    Path("/Library/Fonts"),
    _HOME / "Library/Fonts",
    Path("C:/Windows/Fonts"),
)
"""Where Linux, macOS and Windows keep fonts."""

EAST_ASIAN = (
    "wqy-microhei.ttc",
    "DroidSansFallbackFull.ttf",
    "NotoSansCJK-Regular.ttc",
    "Arial Unicode.ttf",
    "PingFang.ttc",
    "msyh.ttc",
    "YuGothR.ttc",
    "malgun.ttf",
)
"""Fonts with thousands of Chinese, Japanese or Korean characters, the quickest ones first.

Such a font has 2 to 20 MB, too much to install for a demo. An invoice holds only the characters
that it uses.
"""


@cache
def installed() -> Path:
    """Return FiraGO: Latin, Greek, Cyrillic, Arabic, Hebrew, Thai, Georgian and Devanagari.

    The package holds it in memory, and fpdf2 reads files.
    """
    from pymupdf_fonts import fontbuffers

    folder = tempfile.mkdtemp(prefix="foolscap-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = Path(folder) / "FiraGO.ttf"
    file.write_bytes(fontbuffers["figo"]())
    return file


def of_the_machine(characters: Collection[str]) -> Path | None:
    """Return the machine's font that has the most of these characters; None if none has any."""
    if not characters:
        return None
    wanted = set(map(ord, characters))
    found = [(len(wanted & known(file)), file) for file in _there(FOLDERS)]
    most = max((count for count, _ in found), default=0)
    return next((file for count, file in found if count == most > 0), None)


@cache
def _there(folders: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the files of these fonts, in the order of `EAST_ASIAN`."""
    files = {file.name: file for folder in folders for file in _fonts_in(folder)}
    return tuple(files[name] for name in EAST_ASIAN if name in files)


def _fonts_in(folder: Path) -> list[Path]:
    """Return a folder's fonts; none if it is closed to us, as a home is by `ProtectHome=`."""
    try:
        return sorted(folder.rglob("*.tt[cf]"))
    except OSError:
        return []


@cache
def known(file: Path) -> frozenset[int]:
    """Return the code points that a font has glyphs for; of several fonts in a file the first's."""
    with TTFont(file, fontNumber=0, lazy=True) as font:
        return frozenset(font.getBestCmap())
