"""The colours stand in one place: the dashboard's tokens. The shop's copy of them is alike."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
STYLE = ROOT / "outbox" / "dashboard" / "static" / "style"
SHOP = ROOT / "webapp" / "static" / "shop.css"


def schemes(sheet: str) -> list[dict[str, str]]:
    """Return the tokens of a sheet, in light and in dark."""
    light, _, dark = sheet.partition("* {")[0].partition("prefers-color-scheme: dark")
    return [dict(re.findall(r"--([\w-]+):\s*([^;]+);", part)) for part in (light, dark)]


def test_no_other_sheet_of_the_dashboard_has_a_colour_of_its_own() -> None:
    others = [sheet for sheet in STYLE.glob("*.css") if sheet.name != "tokens.css"]
    assert others
    for sheet in others:
        assert re.findall(r"#[0-9a-fA-F]{3,8}\b|\brgb\(", sheet.read_text()) == [], sheet.name


def test_the_shop_and_its_dashboard_have_the_same_colours() -> None:
    ours, theirs = (schemes(path.read_text()) for path in (STYLE / "tokens.css", SHOP))
    for own, copy in zip(ours, theirs, strict=True):
        shared = own.keys() & copy.keys()
        assert len(shared) >= 10
        assert {name: copy[name] for name in shared} == {name: own[name] for name in shared}
