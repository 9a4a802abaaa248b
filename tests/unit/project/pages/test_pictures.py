"""The README's pictures are of today's pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.browser.pictures import PICTURES
from tests.browser.pictures.picture import Picture

ROOT = Path(__file__).parents[4]
LARGEST = 150_000  # bytes

each_picture = pytest.mark.parametrize("picture", PICTURES, ids=lambda one: one.name)


@each_picture
def test_a_picture_shows_the_pages_as_they_are(picture: Picture) -> None:
    told = f"take the picture anew: python -m tests.browser.pictures {picture.name}"
    assert picture.noted.read_text() == picture.digest(), told


@each_picture
def test_a_picture_is_small(picture: Picture) -> None:
    assert 1_000 < picture.path.stat().st_size < LARGEST


def test_the_readme_shows_them() -> None:
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert [ROOT / name for name in shown] == [picture.path for picture in PICTURES]
