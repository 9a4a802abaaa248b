"""What a sweep asks where nothing is due."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import update

from outbox.worker.sweep import sweep
from tests.integration.store.queries.plans.generic_plans import statements
from tests.support.shop.shop import START, Shop, sent
from tests.support.shop.steps.many import Reading, finish

pytestmark = pytest.mark.each_database

ENDED = 3000
BEGIN = ("PRAGMA", "BEGIN", "ROLLBACK")


def test_a_sweep_that_finds_nothing_is_one_statement(shop: Shop) -> None:
    shop.enqueue(send_at=START + timedelta(days=36_500))
    done = shop.enqueue()
    made = shop.sending(done.id)
    shop.record(made.token, [sent(done.id)])
    sweep(shop.runtime, lambda _: None)  # opens the connection
    claimed: list[int] = []
    asked = statements(shop, lambda _: claimed.append(sweep(shop.runtime, lambda _: None)))
    assert claimed == [0]
    assert len([each for each in asked if not each.startswith(BEGIN)]) == 1


@pytest.mark.long
def test_a_sweep_reads_no_email_that_has_ended(shop: Shop) -> None:
    """Though each had a time that ran out, as one-time codes have."""
    shop.enqueue(send_at=START + timedelta(days=36_500), expires_at=START + timedelta(days=36_501))
    reading = Reading(shop.engine)

    def read() -> int:
        sweep(shop.runtime, lambda _: None)
        return sum(reading.of(lambda: sweep(shop.runtime, lambda _: None)).values())

    few = read()
    finish(shop.engine, 10, ENDED + 9)
    email = shop.tables.email
    with shop.engine.begin() as connection:
        ended = email.c.finished_at.is_not(None)
        connection.execute(update(email).where(ended).values(expires_at=START - timedelta(days=1)))
    assert read() < few + ENDED / 10
