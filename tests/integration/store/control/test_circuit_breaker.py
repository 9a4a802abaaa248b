"""When a server's breaker is open, and how it is probed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select, update

from outbox import Status
from outbox.domain.delivery.breaker_timing import ALERT_PAUSE, OPEN_FIRST, OPEN_MAX, RETRIED, Cause
from outbox.store.control import circuit_breaker
from outbox.store.records import Claim
from outbox.store.schema.clock import utc
from outbox.store.transitions.claim import claim_probe
from outbox.worker import probe
from outbox.worker.sweep import sweep
from tests.support.shop.shop import LEASE, Shop

pytestmark = pytest.mark.each_database

SERVER = "127.0.0.1:1"
SILENT = "dot: 0 no reply yet"


def trip(shop: Shop, **options: object) -> None:
    values: dict[str, object] = {"cause": Cause.SESSION, "reason": "connect: refused"} | options
    circuit_breaker.trip(shop.database, SERVER, **values)  # type: ignore[arg-type]


def left(shop: Shop) -> float:
    """Return how many seconds the breaker stays open from now on."""
    table = shop.tables.breaker
    with shop.engine.connect() as connection:
        row = connection.execute(select(table.c.retry_at, shop.database.now().label("now"))).one()
    return (utc(row.retry_at) - utc(row.now)).total_seconds()


def test_an_open_breaker_lets_nothing_be_claimed(shop: Shop) -> None:
    email = shop.enqueue()
    trip(shop)
    assert sweep(shop.runtime, lambda _: None) == 0
    assert shop.status(email.id) is Status.PENDING


def probes(shop: Shop) -> list[int]:
    """Sweep; return of each claim how many emails it has."""
    made: list[Claim] = []
    sweep(shop.runtime, made.append)
    return [claim.emails for claim in made if claim.is_probe]


def test_where_no_session_could_be_had_a_session_is_the_probe_and_no_email(shop: Shop) -> None:
    shop.enqueue()
    trip(shop)
    assert probes(shop) == []
    shop.later(OPEN_FIRST + 0.1)
    assert probes(shop) == [0]
    assert probes(shop) == [], "one at a time"
    assert shop.statuses() == ["pending"]


def test_where_emails_were_halted_one_email_is_the_probe_and_never_the_suspect(shop: Shop) -> None:
    suspect, other = shop.enqueue(), shop.enqueue()
    trip(shop, cause=Cause.EMAILS, suspect_id=suspect.id)
    shop.later(OPEN_FIRST + 0.1)
    assert probes(shop) == [1]
    assert probes(shop) == [], "one at a time"
    assert (shop.status(suspect.id), shop.status(other.id)) == ("pending", "claimed")


def test_a_probe_prefers_what_differs_from_the_suspect_and_what_nothing_is_held_against(
    shop: Shop,
) -> None:
    suspect = shop.enqueue("a@one.example")
    tried, alike, other = (shop.enqueue(f"b@{name}.example") for name in ("two", "one", "three"))
    with shop.engine.begin() as connection:
        table = shop.tables.email
        connection.execute(update(table).where(table.c.id == tried.id).values(waited=5))
    trip(shop, cause=Cause.EMAILS, suspect_id=suspect.id)
    shop.later(OPEN_FIRST + 0.1)
    assert probes(shop) == [1]
    assert shop.status(other.id) is Status.CLAIMED
    assert shop.status(alike.id) is shop.status(tried.id) is Status.PENDING


def test_a_server_with_nothing_but_the_suspect_is_probed_with_it(shop: Shop) -> None:
    suspect = shop.enqueue()
    trip(shop, cause=Cause.EMAILS, suspect_id=suspect.id)
    shop.later(OPEN_FIRST + 0.1)
    assert probes(shop) == [1]
    assert shop.status(suspect.id) is Status.CLAIMED


def test_a_sweep_that_stands_still_while_it_takes_the_probe_makes_no_second_one(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile the next probe's time comes, and another sweep makes it."""
    shop.enqueue()
    trip(shop)
    shop.later(OPEN_FIRST + 0.1)
    made: list[Claim] = []
    probed: list[str | None] = []

    def start(claim: Claim) -> None:
        batch = shop.start(claim.token)
        assert batch is not None
        made.append(claim)
        probed.append(batch.probed)

    def stand_still(*args: Any, **options: Any) -> Claim | None:
        monkeypatch.setattr(probe, "claim_probe", claim_probe)
        shop.later(60.0)
        sweep(shop.runtime, start)
        return claim_probe(*args, **options)

    monkeypatch.setattr(probe, "claim_probe", stand_still)
    sweep(shop.runtime, start)
    assert [claim.is_probe for claim in made] == [True, True]
    assert probed == [SERVER, None]


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("cause", list(OPEN_MAX))
def test_a_probe_that_no_task_started_does_not_count(shop: Shop, cause: Cause) -> None:
    """The broker lost its message: the server was not asked, and is asked as soon as possible."""
    shop.enqueue()
    trip(shop, cause=cause)
    shop.later(OPEN_FIRST + 0.1)
    for _ in range(5):
        assert len(probes(shop)) == 1
        (asked,) = shop.rows(shop.tables.breaker)
        assert asked.failures == 2
        shop.later(LEASE + 0.1)
        shop.rescue()
        (row,) = shop.rows(shop.tables.breaker)
        assert (row.failures, row.prober) == (1, None)
    assert len(probes(shop)) == 1


def test_a_probe_whose_task_was_lost_counts(shop: Shop) -> None:
    shop.enqueue()
    trip(shop)
    shop.later(OPEN_FIRST + 0.1)
    made: list[Claim] = []
    sweep(shop.runtime, made.append)
    assert shop.start(made[0].token)
    shop.later(LEASE + 0.1)
    shop.rescue()
    assert shop.rows(shop.tables.breaker)[0].failures == 2


def test_emails_that_were_halted_are_probed_for_at_least_every_half_minute(shop: Shop) -> None:
    trip(shop, cause=Cause.EMAILS, named=1000.0, alert=True)
    assert 29 < left(shop) <= 30
    for _ in range(3):
        shop.later(30.1)
        assert circuit_breaker.take_probe(shop.database, SERVER)
    assert left(shop) <= 30


def test_a_probe_is_taken_by_one_only_and_counts_as_failed(shop: Shop) -> None:
    trip(shop)
    assert not circuit_breaker.take_probe(shop.database, SERVER)
    shop.later(OPEN_FIRST + 0.1)
    with ThreadPoolExecutor(4) as pool:
        take = partial(circuit_breaker.take_probe, shop.database)
        taken = list(pool.map(take, [SERVER] * 4))
    assert sum(found is not None for found in taken) == 1
    assert shop.rows(shop.tables.breaker)[0].failures == 2
    assert not circuit_breaker.take_probe(shop.database, "other:25")


def test_the_pauses_double_from_five_seconds_to_five_minutes(shop: Shop) -> None:
    trip(shop)
    pauses = []
    for _ in range(8):
        pauses.append(left(shop))
        shop.later(pauses[-1] + 0.5)
        assert circuit_breaker.take_probe(shop.database, SERVER)
    expected = [5, 10, 20, 40, 80, 160, 300, 300]
    assert all(want - 3 < got <= want + 0.1 for want, got in zip(expected, pauses, strict=True)), (
        pauses
    )


def test_only_probes_in_a_row_that_get_no_reply_put_the_next_one_off_for_longer(
    shop: Shop,
) -> None:
    def pause(reason: str) -> float:
        """Have a probe fail for this reason, and be left where its reply is waited for."""
        shop.later(left(shop) + 0.1)
        assert circuit_breaker.take_probe(shop.database, SERVER)
        token = uuid4()
        circuit_breaker.note_prober(shop.database, SERVER, token)
        is_silent = reason == SILENT
        trip(shop, cause=Cause.EMAILS, reason=reason, anew=is_silent)
        if is_silent:
            circuit_breaker.leave_probe(shop.database, token)
        return round(left(shop), -1)

    reasons = ["rcpt: 451 later"] * 6 + [SILENT] * 3 + ["rcpt: 451 later", SILENT]
    trip(shop, cause=Cause.EMAILS, reason="rcpt: 451 later", alert=True)
    pauses = [pause(reason) for reason in reasons]
    assert pauses[5:] == [30, 30, 40, 80, 30, 30]


def test_workers_that_meet_the_same_outage_count_as_one_failure(shop: Shop) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: trip(shop, reason=f"worker {n}"), range(4)))
    (row,) = shop.rows(shop.tables.breaker)
    assert row.failures == 1
    assert row.reason.startswith("worker")
    assert left(shop) <= 5.1


def test_refused_credentials_wait_the_longest_and_alert(shop: Shop) -> None:
    trip(shop)
    trip(shop, alert=True, reason="auth: 535 no")
    (row,) = shop.rows(shop.tables.breaker)
    assert (bool(row.alert), row.reason) == (True, "auth: 535 no")
    assert left(shop) > 290


def test_a_delay_that_the_server_names_is_kept(shop: Shop) -> None:
    trip(shop, named=1000.0)
    assert left(shop) > 990


def test_a_reason_of_any_length_is_cut(shop: Shop) -> None:
    trip(shop, reason="\u00e4" * 2000)
    assert shop.rows(shop.tables.breaker)[0].reason == "\u00e4" * 500


def test_a_closed_breaker_is_gone(shop: Shop) -> None:
    shop.enqueue()
    trip(shop)
    circuit_breaker.close(shop.database, SERVER)
    circuit_breaker.close(shop.database, SERVER)
    assert shop.count(shop.tables.breaker) == 0
    assert sweep(shop.runtime, lambda _: None) == 1


def test_a_worker_that_starts_has_a_server_tried_again_that_waits_for_a_person(shop: Shop) -> None:
    trip(shop, alert=True)
    assert left(shop) > ALERT_PAUSE - 5
    assert circuit_breaker.hurry(shop.database, ["another"]) == 0
    assert left(shop) > ALERT_PAUSE - 5
    assert circuit_breaker.hurry(shop.database, [SERVER]) == 1
    assert RETRIED - 5 < left(shop) <= RETRIED, "workers that start all the time lock no account"
    shop.later(RETRIED)
    assert circuit_breaker.hurry(shop.database, [SERVER]) == 1
    assert left(shop) <= 0


def test_a_server_that_needs_no_person_is_tried_no_earlier(shop: Shop) -> None:
    trip(shop, named=100.0)
    circuit_breaker.hurry(shop.database, [SERVER])
    assert left(shop) > 95
