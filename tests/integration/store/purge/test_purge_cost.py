"""A purge reads what it removes, and nothing of the emails that stay, however many there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from outbox.store.retention import purge as module
from tests.support.shop.shop import Shop
from tests.support.shop.steps.many import Reading, finish
from tests.support.shop.steps.purged import bared, removed

pytestmark = pytest.mark.each_database

FEW = 2_000
MANY = 20_000
OVER = 200
"""Emails that are old enough to be removed."""


def purged(shop: Shop, last: int) -> int:
    """Purge up to this email; return how many were removed."""
    older_than = shop.database.offset - 60.0 * last - 30.0
    return removed(shop, older_than)


def stripped(shop: Shop, last: int) -> int:
    """Remove the bodies up to that of this email; return how many were removed."""
    return bared(shop, shop.database.offset - 60.0 * last - 30.0)


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("work", [purged, stripped])
def test_what_a_purge_reads_does_not_grow_with_the_table(
    shop: Shop, work: Callable[[Shop, int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BODIES", replace(module._BODIES, span=100))
    reading = Reading(shop.engine)
    empty: list[Counter[str]] = []
    full: list[Counter[str]] = []

    def count(last: int) -> None:
        assert work(shop, last) == OVER

    shop.later(60.0 * (FEW + MANY))
    work(shop, 0)  # the connection, the mark, and SQLAlchemy's cache are made
    # The id between the two is for the empty content of those without a body.
    for first, last, over in ((1, FEW, OVER), (FEW + 2, FEW + MANY, 2 * OVER)):
        finish(shop.engine, first, last)
        full.append(reading.of(partial(count, over)))
        empty.append(reading.of(partial(work, shop, over)))
    print(f"{shop.database.dialect}: {OVER} removed {full}; empty {empty}")
    assert_alike(*full)
    assert_alike(*empty)
    # Each took an email, a content and an attempt; and the walk looks beyond them, at one chunk.
    assert all(full[1][unit] <= 10 * 3 * OVER for unit in ("rows", "Handler"))


@pytest.mark.long
def test_emails_that_nobody_decides_about_are_not_read_by_each_purge(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EMAILS", replace(module._EMAILS, span=100))
    reading = Reading(shop.engine)
    found: list[Counter[str]] = []
    shop.later(2 * 60.0 * (FEW + MANY))
    for first, last in ((1, FEW), (FEW + 1, FEW + MANY)):
        finish(shop.engine, first, last, status="unknown")
        purged(shop, last)
        found.append(reading.of(partial(purged, shop, last)))
    print(f"{shop.database.dialect}: {found}")
    assert shop.count(shop.tables.straggler) == FEW + MANY
    assert_alike(*found)


def assert_alike(few: Counter[str], many: Counter[str]) -> None:
    for unit, number in many.items():
        assert number <= 1.2 * few[unit] + 20, (unit, few, many)
