"""What the pages name is there, and their lines can be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
FOR_CONTRIBUTORS = (
    "CONTRIBUTING.md",
    "docs/architecture.md",
    "docs/glossary.md",
    "docs/lifecycle.md",
)
PAGES = sorted(
    str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
)
TRANSITIONS = ROOT / "outbox" / "store" / "transitions"
PLACES = (ROOT, ROOT / "outbox", ROOT / "outbox" / "domain" / "delivery", TRANSITIONS)

_PATH = re.compile(r"`([\w./]+(?:\.py|\.md|/))[:`]?")
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
_TEST = re.compile(r"`((?:\w+/)*test_\w+\.py)`")
_BLOCK = re.compile(r"^( *)```.*?^\1```$", flags=re.DOTALL | re.MULTILINE)
_MADE = re.compile(r"<!-- figures: begin -->.*<!-- figures: end -->|<!--.*?-->", flags=re.DOTALL)
_PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*(?:[*+-]|\d+\.) )|\n(?=[|#])")
_END = re.compile(r"(?<=[.!?:;])(?:\*\*)?\s+")
_CODE = re.compile(r"`[^`]*`|\]\([^)]*\)")

LONGEST = 25
"""Words of a sentence, or of its part up to a colon or a semicolon."""


@pytest.mark.parametrize("page", FOR_CONTRIBUTORS)
def test_every_file_that_a_page_for_contributors_names_exists(page: str) -> None:
    named = _PATH.findall((ROOT / page).read_text(encoding="utf-8"))
    missing = [name for name in named if not any((place / name).exists() for place in PLACES)]
    assert named, "the page names nothing"
    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_every_link_to_a_file_leads_to_one(page: str) -> None:
    folder = (ROOT / page).parent
    links = _LINK.findall(_prose(page))
    assert [name for name in links if not (folder / name).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_a_page_names_exists(page: str) -> None:
    there = [f"/{path.relative_to(ROOT).as_posix()}" for path in ROOT.glob("tests/**/test_*.py")]
    named = _TEST.findall(_prose(page))
    assert [name for name in named if not any(path.endswith(f"/{name}") for path in there)] == []


def test_the_architecture_names_every_arrow() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    arrows = {file.stem for file in ROOT.glob("outbox/store/transitions/[a-z]*.py")}
    assert arrows == set(re.findall(r"store/transitions/(\w+)\.py", text)), "a new arrow"


@pytest.mark.parametrize("page", PAGES)
def test_no_line_of_prose_is_too_long(page: str) -> None:
    prose = [line for line in _prose(page).splitlines() if not line.lstrip().startswith("|")]
    assert [line for line in prose if len(line) > 120] == []


@pytest.mark.parametrize("page", sorted({*PAGES} - {"CHANGELOG.md"}))
def test_sentences_are_short_and_no_email_is_called_a_mail(page: str) -> None:
    sentences = [
        sentence
        for paragraph in _PARAGRAPH.split(_MADE.sub("", _prose(page)))
        if not paragraph.lstrip().startswith("|")
        for sentence in _END.split(" ".join(_CODE.sub("CODE", paragraph).split()))
    ]
    assert [one for one in sentences if len(re.findall(r"\S*\w\S*", one)) > LONGEST] == []
    assert [
        one
        for one in sentences
        if re.search(r"\b[Mm]ails\b|\b(a|each|every) mail\b(?! (server|program))", one)
    ] == []


def _prose(page: str) -> str:
    """Return a page without its blocks of code."""
    return _BLOCK.sub("", (ROOT / page).read_text(encoding="utf-8"))
