"""The page of the drill has the words by which each failure is told, and the alert for each."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.system.drill_words import ALL

DOCS = Path(__file__).parents[4] / "docs"
PAGE = " ".join((DOCS / "how-to" / "drill.md").read_text().split())
ALERTS = (DOCS / "deploy" / "monitoring" / "outbox-alerts.yaml").read_text()


def test_the_page_has_the_words_of_the_overview_and_of_check() -> None:
    parts = {part for words in ALL for part in (*words.overview, *words.check)}
    assert [part for part in parts if _plain(part) not in PAGE] == []


def test_the_alerts_that_it_names_exist() -> None:
    named = set(re.findall(r"`(Outbox[A-Z][A-Za-z]+)`", PAGE))
    assert named
    assert named <= set(re.findall(r"alert: (\w+)", ALERTS))


def _plain(part: str) -> str:
    """Return the words without the level, and without the space beside what differs."""
    return re.sub(r"^(error|warn) +", "", part).strip()
