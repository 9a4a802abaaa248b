"""`outbox.figures` and `outbox.backlog`, and the commands that print what they return."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from outbox import Backlog, InvalidMessage, Period, Status
from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.transaction import Reply, Verdict
from outbox.store.queries import waiting
from tests.support.shop.shell import parsed, runner
from tests.support.shop.shop import Shop, Shops, entry, sent

pytestmark = pytest.mark.one_database("postgresql")


def attempted(shop: Shop) -> None:
    """Send two emails, and have one put off."""
    ids = [shop.enqueue().id for _ in range(3)]
    made = shop.started()
    shop.open(made.token, *ids)
    now = datetime.now(UTC).timestamp()
    busy = Outcome(status=Status.PENDING, reply=Reply(code=450, text="busy"), delay=60.0)
    results = [sent(ids[0]), sent(ids[1]), entry(ids[2], busy, Verdict.RETRY)]
    shop.record(made.token, [replace(r, started_at=now - 0.4, finished_at=now) for r in results])


def test_figures_tell_what_became_of_the_attempts(shop: Shop) -> None:
    attempted(shop)
    found = shop.outbox.figures()
    assert (found.last, len(found.points)) == (Period.HOUR, 60)
    assert found.verdicts == {Verdict.SENT: 2, Verdict.RETRY: 1}
    assert found.accepted_in.p50 is not None
    assert found.accepted_in.p50 < 30
    [failure] = found.failures
    assert (failure.server, failure.verdict, failure.code) == ("mx.example:25", "retry", 450)
    assert found.verdicts == shop.outbox.figures("week").verdicts
    with pytest.raises(InvalidMessage, match="last: must be one of hour, day, week"):
        shop.outbox.figures("year")


def test_the_command_figures_prints_what_the_verb_returns(shop: Shop) -> None:
    run = runner(shop)
    assert "99 %" not in run("figures").output
    attempted(shop)
    lines = run("figures", "--last=day").output.splitlines()
    assert lines[1:3] == ["  sent                 2", "  retry                1"]
    assert lines[-1] == "  retry                1  450 of mx.example:25"
    shown = parsed(run("figures", "--json"))
    assert (shown["last"], shown["verdicts"]) == ("hour", {"sent": 2, "retry": 1})
    assert shown["failures"][0]["attempts"] == 1
    assert shown["points"][-1]["accepted_in"].keys() == {"p50", "p95", "p99"}


@pytest.mark.each_database
def test_the_backlog_tells_what_waits_and_what_is_in_flight(shop: Shop) -> None:
    assert shop.outbox.backlog() == Backlog(
        due=0, scheduled=0, claimed=0, sending=0, failed=0, unknown=0, oldest_due_seconds=0.0
    )
    ids = [shop.enqueue().id for _ in range(3)]
    made = shop.started()
    shop.open(made.token, *ids[:2])
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    shop.enqueue(send_at=tomorrow)
    for priority in ("urgent", "bulk"):
        shop.enqueue(priority=priority)
        shop.enqueue(priority=priority, send_at=tomorrow)
    shop.later(60)
    found = shop.outbox.backlog()
    assert (found.due, found.scheduled, found.claimed, found.sending) == (2, 3, 1, 2)
    assert 60 <= found.oldest_due_seconds < 90


@pytest.mark.each_database
def test_the_backlog_is_counted_up_to_a_limit(
    shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MOST_COUNTED", 5)
    shop = shops.open(OUTBOX_DOMAIN_RATES={f"d{number}.example": "1/s" for number in range(4)})
    later = datetime.now(UTC) + timedelta(days=1)
    for number in range(4):
        for send_at in (None, None, later, later):
            shop.enqueue(f"r@d{number}.example", send_at=send_at)
    found = shop.outbox.backlog()
    assert (found.due, found.scheduled) == (5, 5)


def test_the_command_backlog_prints_what_the_verb_returns(
    shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outbox.flask_ext.cli.figures.MOST_COUNTED", 2)
    shop = shops.open()
    shop.enqueue()
    run = runner(shop)
    assert run("backlog").output.splitlines()[0] == "due                  1"
    shop.enqueue()
    assert run("backlog").output.splitlines()[0] == "due                 2+"
    assert parsed(run("backlog", "--json"))["due"] == 2
