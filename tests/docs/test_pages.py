"""A newcomer follows each page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import Block, blocks_of
from tests.docs.newcomer import PICTURES, Newcomer
from tests.docs.ports import REDIS, SMTP, Ports
from tests.support.servers.brokers.redis import RedisServer
from tests.support.servers.smtp.catcher import Catcher

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
FEW = 2
"""Commands of a page that `make test` runs: each takes half a second, or starts a worker."""


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _run_blocks(page: Path) -> list[Block]:
    blocks = blocks_of(page.read_text(encoding="utf-8"))
    return [
        block
        for block in blocks
        if not (block.excuse or block.is_directive or block.language in PICTURES)
    ]


def _is_long(page: Path) -> bool:
    return sum(f"\n{block.text}".count("\n$ ") for block in _run_blocks(page)) > FEW


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=_name(page), marks=[pytest.mark.long] * _is_long(page))
        for page in PAGES
        if _run_blocks(page)
    ],
)
def test_what_a_page_says_works_word_by_word(
    page: Path, tmp_path: Path, redis: RedisServer, catcher: Catcher
) -> None:
    directory = tmp_path / "fresh"
    directory.mkdir()
    ports = Ports({REDIS: redis.port})
    if "aiosmtpd" not in page.read_text(encoding="utf-8"):
        ports.real[SMTP] = catcher.port
    with Newcomer(directory, ports) as newcomer:
        newcomer.follow(page)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_an_excuse_has_a_reason_or_names_the_test_that_runs_the_block(page: Path) -> None:
    for block in blocks_of(page.read_text(encoding="utf-8")):
        kind, reason = block.excuse or ("", "")
        if kind == "run by":
            assert (ROOT / reason).is_file(), f"{_name(page)}, line {block.line}: no {reason}"
        elif kind:
            assert len(reason.split()) > 3, f"{_name(page)}, line {block.line}: why?"
        if block.language in PICTURES:
            assert "\n$ " not in f"\n{block.text}", f"line {block.line} has commands"


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 250
