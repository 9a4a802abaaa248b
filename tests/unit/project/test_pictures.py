"""The README's picture is of today's demo."""

from __future__ import annotations

import re
from pathlib import Path

from tests.browser.pictures import DIGEST, PICTURE, digest

ROOT = Path(__file__).parents[3]
LARGEST = 150_000  # bytes


def test_the_picture_shows_the_demo_as_it_is() -> None:
    told = "take the picture anew: python -m tests.browser.pictures"
    assert DIGEST.read_text() == digest(), told


def test_the_readme_shows_it_and_it_is_small() -> None:
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert [ROOT / name for name in shown] == [PICTURE]
    assert 1_000 < PICTURE.stat().st_size < LARGEST
