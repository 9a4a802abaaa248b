"""What the outbox says of one email is said of one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from outbox.domain.counted import counted

PACKAGE = Path(__file__).parents[3] / "outbox"
NOUNS = "emails|batches|results|connections|failures|messages|leases|recipients"
NOT_COUNTED = re.compile(rf"(?:\}}|%[ds]) (?:{NOUNS})\b")
"""A value with a noun behind it that is always of many."""


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (0, ("email",), "0 emails"),
        (1, ("email",), "1 email"),
        (2, ("email",), "2 emails"),
        (1, ("email is", "emails are"), "1 email is"),
        (3, ("batch", "batches"), "3 batches"),
    ],
)
def test_a_number_has_its_noun(number: int, words: tuple[str, ...], said: str) -> None:
    assert counted(number, *words) == said


def test_no_text_of_the_package_has_a_noun_for_many_behind_any_number() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line in path.read_text("utf-8").splitlines()
        if NOT_COUNTED.search(line)
    ]
    assert found == []
