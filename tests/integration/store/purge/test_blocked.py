"""A person's transaction that blocks the removal of an email keeps no purge waiting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from outbox import Status
from outbox.domain.config.retention import Retention
from outbox.store.connection import one_by_one
from outbox.store.connection.error_codes import is_lock_timeout
from outbox.store.retention.purge import purge as chunks_of
from outbox.store.retention.stragglers import LATER
from outbox.worker.purge import purge_all, purge_briefly
from tests.integration.store.locks import OURS, in_time
from tests.integration.store.purge.test_purge_run import DAY, purged, stragglers, withdrawn
from tests.integration.store.purge.test_refused import left, told
from tests.support.shop.shop import Shop

pytestmark = [pytest.mark.databases("postgresql", "mariadb"), pytest.mark.each_driver]

MANY = 40


@pytest.fixture
def old(shop: Shop) -> Iterator[Shop]:
    """A shop with emails past their retention, and a booking of each that outlives it."""
    withdrawn(shop, MANY)
    shop.later(DAY + 1)
    with shop.engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TABLE bookings (id INT PRIMARY KEY, email_id BIGINT, FOREIGN KEY (email_id)"
            " REFERENCES outbox_email (id) ON DELETE SET NULL)"
        )
        for place, email_id in enumerate(left(shop)):
            connection.exec_driver_sql(f"INSERT INTO bookings VALUES ({place}, {email_id})")
    yield shop
    with shop.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE bookings")


@contextmanager
def held(shop: Shop, *places: int) -> Iterator[tuple[list[int], Session]]:
    """Hold these bookings; yield the ids of their emails, and the session that holds them."""
    kept = [left(shop)[place] for place in places]
    with shop.session() as session:
        connection = session.connection(execution_options=OURS)
        for place in places:
            connection.exec_driver_sql(f"UPDATE bookings SET email_id = NULL WHERE id = {place}")
        yield kept, session
        session.rollback()


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("places", [[4], [0, MANY - 1]])
def test_an_email_whose_booking_is_held_stays_alone_and_goes_in_a_later_purge(
    old: Shop, places: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    with held(old, *places) as (kept, session):
        assert in_time(lambda: purged(old), session) == MANY - len(kept)
        assert left(old) == stragglers(old) == kept
    assert told(caplog) == []
    assert purged(old) == 0
    old.later(LATER + 1)
    assert purged(old) == len(kept)
    assert stragglers(old) == []
    assert old.count(old.tables.content) == 0


@contextmanager
def counted_waits(shop: Shop) -> Iterator[list[BaseException]]:
    """Yield the waits for locks that have ended with an error."""
    waits: list[BaseException] = []

    @sa.event.listens_for(shop.engine, "handle_error")
    def note(context: sa.engine.ExceptionContext) -> None:
        if context.sqlalchemy_exception is not None and is_lock_timeout(
            context.sqlalchemy_exception
        ):
            waits.append(context.original_exception)

    yield waits
    sa.event.remove(shop.engine, "handle_error", note)


@pytest.mark.long
def test_one_that_a_person_would_remove_early_goes_in_its_own_time(old: Shop) -> None:
    with held(old, 4) as (kept, session), counted_waits(old) as waits:
        removed = in_time(lambda: list(purge_all(old.runtime, older_than=0.0)), session)
        assert sum(each.emails for each in removed) == MANY - len(kept)
    assert len(waits) == 3, "the run waited for all, for the first six, and for the one"
    old.later(old.runtime.settings.retention.ages[Status.CANCELLED] - DAY - LATER / 2)
    assert purge_briefly(old.runtime).emails == 0
    old.later(LATER / 2)
    assert purge_briefly(old.runtime).emails == len(kept)


@pytest.mark.long
def test_one_that_a_person_would_remove_early_goes_when_asked_once_more(old: Shop) -> None:
    with held(old, 4) as (kept, session):
        in_time(lambda: list(purge_all(old.runtime, older_than=0.0)), session)
    removed = purge_all(old.runtime, older_than=0.0)
    assert sum(each.emails for each in removed) == len(kept)
    assert left(old) == stragglers(old) == []


@pytest.mark.long
def test_a_transaction_waits_a_few_times_and_the_next_one_goes_on_with_the_rest(
    old: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_by_one, "monotonic", count().__next__)  # each wait takes a second
    with held(old, 0, 1, 2) as (kept, session):
        with (
            closing(chunks_of(old.database, Retention.of_all(DAY))) as chunks,
            counted_waits(old) as waits,
        ):
            first = in_time(lambda: next(chunks).emails, session)
        assert first == MANY - 6
        assert len(waits) == 3, "it waited for all, for the first six, and for the first one"
        for _ in kept:
            in_time(lambda: purged(old), session)
        assert left(old) == stragglers(old) == kept


@pytest.mark.databases("mariadb")
def test_a_transaction_waits_for_a_few_seconds_only_where_each_wait_is_of_one(old: Shop) -> None:
    """There a process that purges would keep urgent email waiting."""
    with (
        held(old, *range(6), *range(12, 30)) as (_, session),
        closing(chunks_of(old.database, Retention.of_all(DAY))) as chunks,
        counted_waits(old) as waits,
    ):
        assert in_time(lambda: next(chunks).emails, session) == 6
        assert len(waits) <= 4, "the last one was for a further six"
