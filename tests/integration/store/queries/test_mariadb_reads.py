"""What MariaDB reads for a look does not grow with the emails that have ended.

Its indexes have no predicates: the emails that have ended stand in them before those that wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from sqlalchemy import select, update

from outbox import Priority, Status
from outbox.domain.config.search_terms import ALL_TERMS
from outbox.domain.search.filters import Filters
from outbox.domain.search.place import Place
from outbox.flask_ext.management.health import overview
from outbox.flask_ext.management.newsletters import reports
from outbox.store.due_times import HELD
from outbox.store.queries import encryption_keys, id_steps, whole_state
from outbox.store.records import Depth
from outbox.store.scrape import scrape
from outbox.store.search.candidates import ById, candidates
from outbox.store.search.id_bounds import Bounds
from tests.support.shop.shop import START, Shop, addresses, newsletter
from tests.support.shop.steps.many import Reading, finish

pytestmark = pytest.mark.databases("mariadb")

ENDED, WAITING = 4000, 20


@pytest.fixture
def shop_with_ended(shop: Shop) -> Shop:
    """A shop whose newsletter has 4,000 emails that have ended, and 20 of its lane that wait."""
    finish(shop.engine, 1, ENDED)
    email = shop.tables.email
    with shop.session() as session:
        session.execute(update(email).values(priority=int(Priority.BULK), tag="news"))
        shop.outbox.enqueue_many(newsletter(), addresses(WAITING), session=session, tag="more")
        session.commit()
    with shop.engine.begin() as connection:
        connection.exec_driver_sql("ANALYZE TABLE outbox_email").all()
        priorities = connection.execute(select(email.c.priority).distinct()).scalars().all()
    assert priorities == [int(Priority.BULK)]
    return shop


def rows_read(shop: Shop, look: Callable[[], object]) -> int:
    look()  # it opens the connection
    return sum(Reading(shop.engine).of(look).values())


def test_what_waits_is_counted_and_found_without_what_has_ended(shop_with_ended: Shop) -> None:
    shop, database = shop_with_ended, shop_with_ended.database
    most = ENDED // 4
    assert database.read(lambda c: scrape(c, database)).emails["due"] == WAITING
    assert rows_read(shop, lambda: database.read(lambda c: scrape(c, database))) < most
    assert overview(shop.runtime).backlog.due == WAITING
    assert rows_read(shop, lambda: overview(shop.runtime)) < most
    needed = partial(database.read, lambda c: encryption_keys.needed(c, database))
    assert rows_read(shop, needed) < 5 * encryption_keys.LOOKED_AT
    found = shop.outbox.list(status=Status.PENDING, limit=2 * WAITING).emails
    assert len(found) == WAITING
    assert rows_read(shop, lambda: shop.outbox.list(status=Status.PENDING)) < most


def test_what_is_due_scheduled_late_and_held_is_told_apart(shop_with_ended: Shop) -> None:
    shop, email = shop_with_ended, shop_with_ended.tables.email
    look = partial(whole_state.look, limit=600.0, lease_seconds=60.0, max_crashes=3)

    def state() -> whole_state.WholeState:
        return shop.database.read(lambda c: look(c, shop.database))

    assert (state().standstill.stuck, state().has_held) == (0, False)
    moments = [HELD] * 2 + [START + timedelta(days=36_500)] * 3 + [START - timedelta(days=1)] * 4
    with shop.engine.begin() as connection:
        for number, moment in enumerate(moments):
            reader = email.c.id == ENDED + 1 + number
            connection.execute(update(email).where(reader).values(due_at=moment))
    found = state()
    assert (found.standstill.stuck, found.has_held) == (4, True)
    assert (found.backlog.due, found.backlog.scheduled) == (WAITING - 5, 5)


@pytest.mark.parametrize("newest_first", [True, False])
def test_a_step_through_a_tag_reads_no_more_than_it_finds(
    shop_with_ended: Shop, monkeypatch: pytest.MonkeyPatch, newest_first: bool
) -> None:
    """The emails that the steps before it have found are not read again."""
    shop, database = shop_with_ended, shop_with_ended.database
    monkeypatch.setattr(id_steps, "LOOK", 50)
    wanted = shop.tables.email.c.id > 0
    walk = id_steps.Walk(tag="news", lowest=1, wanted=wanted, newest_first=newest_first)
    step = partial(id_steps.read_step, database=database, walk=walk, after=ENDED // 2)
    assert len(database.read(step).ids) == 50
    assert rows_read(shop, partial(database.read, step)) < ENDED // 10


def test_a_page_of_a_tag_reads_no_more_than_it_shows(shop_with_ended: Shop) -> None:
    shop, database = shop_with_ended, shop_with_ended.database
    filters = Filters.check(ALL_TERMS, tag="news")

    def places() -> list[int]:
        look = partial(candidates, database=database, filters=filters)
        half = Place(ENDED // 2)
        return [one.id for one in database.read(lambda c: look(c).after(half, 50))]

    assert places() == list(range(ENDED // 2 - 1, ENDED // 2 - 51, -1))
    assert rows_read(shop, places) < ENDED // 10
    oldest = database.read(lambda c: candidates(c, database, filters))
    assert isinstance(oldest, ById)
    above = replace(oldest, bounds=Bounds(ENDED // 2, None)).lowest()
    ask = partial(database.read, lambda c: c.execute(above).scalar())
    assert ask() == ENDED // 2 + 1
    assert rows_read(shop, ask) < ENDED // 10


def test_the_newsletters_are_found_and_sampled_by_a_bounded_number_of_rows(
    shop_with_ended: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look-up of a sample reads one email, and those that wait are few."""
    shop = shop_with_ended
    monkeypatch.setattr("outbox.store.search.tags.NEWEST", 10)
    monkeypatch.setattr(reports, "IN_LIST", Depth(counted=50, sample=50, problems=50))
    look = partial(reports.newsletters, shop.runtime, before=None, limit=10)
    found = {one.tag: one for one in look().newsletters}
    assert found["more"].statuses == {Status.PENDING: WAITING}
    assert not found["news"].is_counted
    assert set(found["news"].statuses) == {Status.SENT}
    assert 50 <= sum(found["news"].statuses.values()) <= 51
    assert rows_read(shop, look) < ENDED // 2
