"""A search by subject reads about as many ids as it asks for, however many contents have it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from outbox.store.jobs import walk
from outbox.store.search import page
from tests.support.shop.shop import Shop, addresses, newsletter

pytestmark = pytest.mark.each_database

NEWSLETTERS, READERS = 20, 100

Written = Callable[[Shop], list[int]]


def one_after_the_other(shop: Shop) -> list[int]:
    """Write the newsletters, which have one subject; return the ids of their emails."""
    with shop.session() as session:
        for _ in range(NEWSLETTERS):
            shop.outbox.enqueue_many(newsletter(), addresses(READERS), session=session)
        session.commit()
    return [row.id for row in shop.rows(shop.tables.email)]


def in_turns(shop: Shop) -> list[int]:
    """Write them so that each has an email among any few that follow each other."""
    ids, email = one_after_the_other(shop), shop.tables.email
    contents = [row.id for row in shop.rows(shop.tables.content)]
    with shop.engine.begin() as connection:
        for place, content in enumerate(contents):
            ours = email.update().where(email.c.id.in_(ids[place::NEWSLETTERS]))
            connection.execute(ours.values(content_id=content))
    return ids


def read(shop: Shop, look: Callable[[], object]) -> int:
    """Return how many rows the statements of a look fetch."""
    seen: list[tuple[str, Any]] = []

    def note(_: object, __: object, statement: str, values: Any, *___: object) -> None:
        seen.append((statement, values))

    sa.event.listen(shop.engine, "before_cursor_execute", note)
    look()
    sa.event.remove(shop.engine, "before_cursor_execute", note)
    with shop.engine.connect() as connection:
        results = (connection.exec_driver_sql(*each) for each in seen)
        return sum(len(each.all()) for each in results if each.returns_rows)


WRITTEN = [
    (one_after_the_other, 2),
    (in_turns, 4),  # the second content gives half of its ids, the third a third, and so on
]
"""How the emails are written, and how many times as many ids are read as are looked at."""


@pytest.mark.long
@pytest.mark.parametrize(("written", "times"), WRITTEN)
def test_a_page_reads_few_more_ids_than_it_looks_at(
    shop: Shop, written: Written, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = written(shop)
    monkeypatch.setattr(page, "MOST_READ", 400)  # in two looks of 200
    look = partial(shop.outbox.list, subject="news", limit=199)
    assert [email.id for email in look()] == ids[: -199 - 1 : -1]
    assert read(shop, partial(look, tag="none")) <= times * 400


@pytest.mark.long
@pytest.mark.parametrize(("written", "times"), WRITTEN)
def test_a_dry_run_reads_few_more_ids_than_it_counts(
    shop: Shop, written: Written, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(shop)
    monkeypatch.setattr(walk, "MOST_COUNTED", 199)
    monkeypatch.setattr(walk, "COUNTED_AMONG", 400)
    look = partial(shop.outbox.dry_run, "cancel", subject="news")
    assert (look().emails, look().more) == (199, True)
    assert read(shop, partial(look, tag="none")) <= times * (200 + 400)
