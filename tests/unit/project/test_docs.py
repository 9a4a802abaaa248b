"""What the pages for contributors name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = ("CONTRIBUTING.md", "docs/architecture.md", "docs/glossary.md", "docs/lifecycle.md")
TRANSITIONS = ROOT / "outbox" / "store" / "transitions"
PLACES = (ROOT, ROOT / "outbox", ROOT / "outbox" / "domain" / "delivery", TRANSITIONS)

_PATH = re.compile(r"`([\w./]+(?:\.py|\.md|/))[:`]?")
_LINK = re.compile(r"\]\(([^)#:]+)\)")


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_exists(page: str) -> None:
    text = (ROOT / page).read_text()
    named = _PATH.findall(text)
    missing = [name for name in named if not any((place / name).exists() for place in PLACES)]
    links = [
        name for name in _LINK.findall(text) if not (ROOT / page).parent.joinpath(name).exists()
    ]
    assert named or links, "the page names nothing"
    assert (missing, links) == ([], [])


def test_the_architecture_names_every_arrow() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    arrows = {file.stem for file in ROOT.glob("outbox/store/transitions/[a-z]*.py")}
    assert arrows == set(re.findall(r"store/transitions/(\w+)\.py", text)), "a new arrow"


@pytest.mark.parametrize(
    "page", [*PAGES, "README.md", "CHANGELOG.md", "docs/reliability.md", "docs/upgrading.md"]
)
def test_no_line_of_prose_is_too_long(page: str) -> None:
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    prose = [line for line in text.splitlines() if not line.lstrip().startswith("|")]
    assert [line for line in prose if len(line) > 120] == []
