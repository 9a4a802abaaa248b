"""`flask outbox …`: what each command prints, changes, and exits with."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from sqlalchemy import event

from outbox import ConfigurationError, Status
from outbox.domain.config.retention import Retention
from outbox.flask_ext.cli import commands
from outbox.flask_ext.management.figures import due
from outbox.store.control.rate_limits import take
from outbox.store.retention.purge import purge
from tests.support.servers.ports import free_port
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shell import Run, parsed, runner, stuck
from tests.support.shop.shop import Shop, Shops, message, sent

pytestmark = pytest.mark.one_database("mariadb")


@pytest.fixture
def run(shop: Shop) -> Run:
    """Runs `flask outbox` with these words."""
    return runner(shop)


def test_stats_show_statuses_and_what_waits(shop: Shop, run: Run) -> None:
    shop.enqueue()
    run("pause", "bulk")
    figures = parsed(run("stats", "--json"))
    assert set(figures) == {
        "statuses",
        "due",
        "lanes",
        "rate_limited",
        "oldest_due_seconds",
        "batches_in_flight",
        "paused",
        "counters",
        "servers",
        "redirect_to",
        "suppressed",
    }
    assert figures["statuses"]["pending"] == figures["due"]["normal"] == 1
    assert figures["paused"] == ["bulk"]
    text = run("stats").output
    assert "pending" in text
    assert "paused: bulk" in text


@pytest.mark.long
def test_each_figure_about_doubt_has_a_name_of_its_own(shop: Shop, run: Run) -> None:
    """One email has ended in doubt, and two may be sent again."""
    stuck(shop, Status.UNKNOWN)
    ids = [shop.enqueue().id for _ in range(2)]
    shop.open(shop.started().token, *ids)
    shop.rescue()
    stats, progress = parsed(run("stats", "--json")), parsed(run("progress", "--json"))
    assert stats["counters"].keys() == {"came_into_doubt", "leases_rescued"}
    assert stats["counters"]["came_into_doubt"] == 2
    assert stats["statuses"] == progress["statuses"]
    assert (progress["statuses"]["unknown"], progress["in_doubt"]) == (1, 2)
    text = run("stats").output
    assert text.count("unknown") == 1
    assert "ever since\n  came_into_doubt      2\n" in text
    told = "in doubt now         2  (not ended; those that ended in doubt are unknown)\n"
    assert told in run("progress").output


def test_stats_show_lanes_that_wait_and_rates_that_are_used_up(shops: Shops) -> None:
    shop = shops.open(OUTBOX_DOMAIN_RATES={"gmail.com": "1/day"})
    run = runner(shop)
    shop.enqueue("a@gmail.com")
    shop.enqueue("a@x.example")
    rate = shop.runtime.lanes.domains["gmail.com"]
    take(shop.database, {"domain:gmail.com": (rate, 1), "domain:gmail.com/bulk": (rate, 1)})
    figures = parsed(run("stats", "--json"))
    assert figures["lanes"] == {"": 1, "@gmail.com": 1}
    assert [bucket["bucket"] for bucket in figures["rate_limited"]] == ["domain:gmail.com"]
    text = run("stats").output
    assert "due in lane @gmail.com: 1" in text
    assert "domain:gmail.com is used up for 86" in text
    assert "/bulk" not in text


def test_list_filters_and_speaks_json(shop: Shop, run: Run) -> None:
    with shop.session() as session:
        email = shop.outbox.enqueue(message("a@x.example", "b@x.example"), session=session, tag="t")
        session.commit()
    listed = parsed(run("list", "--json", "--tag", "t"))  # a line for each, and there is one
    assert listed["id"] == email.id
    assert (listed["status"], listed["priority"], listed["recipients"]) == ("pending", "normal", 2)
    assert {"recipient", "attempts", "tag", "key", "created_at", "due_at", "send_at"} <= set(listed)
    assert run("list", "--json", "--status", "sent").output == ""
    assert "a@x.example +1" in run("list").output
    run("list", "--status", "nonsense", code=2)


def test_show_tells_all_of_one_email_and_exits_1_where_there_is_none(shop: Shop, run: Run) -> None:
    email_id = stuck(shop, Status.FAILED)
    shown = parsed(run("show", email_id, "--json"))
    assert (shown["status"], shown["subject"]) == ("failed", "Order 1")
    assert shown["recipient_list"][0]["address"] == "a@customers.example"
    assert shown["attempt_list"][0]["code"] == 550
    text = run("show", email_id).output
    assert "fail at dot: 550 no \ufffd such" in text  # a stranger's text steers no terminal
    assert "no email 99" in run("show", 99, code=1).output


@pytest.mark.long
def test_drain_sends_until_nothing_is_due(shops: Shops, catcher: Catcher) -> None:
    shop = shops.open(MAIL_PORT=catcher.port)
    run = runner(shop)
    for _ in range(3):
        shop.enqueue()
    assert "3 emails handled" in run("drain").output
    assert len(catcher.emails) == 3
    catcher.stop()
    shop.enqueue()
    assert "is halted since" in run("drain", code=1).output


@pytest.mark.each_database
def test_drain_counts_no_emails_but_those_that_are_due(shop: Shop, run: Run) -> None:
    """Beside millions that were sent, to count all of them takes seconds each time."""
    statements = list[str]()

    def note(*told: Any) -> None:
        statements.append(told[2])

    event.listen(shop.engine, "before_cursor_execute", note)
    run("stats")
    [whole] = [one for one in statements if one.startswith("SELECT outbox_email.status, count(")]
    statements.clear()
    run("pause")
    shop.enqueue()
    assert "0 emails handled" in run("drain").output
    event.remove(shop.engine, "before_cursor_execute", note)
    assert statements
    assert whole not in statements


@pytest.mark.each_database
def test_the_emails_that_are_due_are_counted_in_all_lanes(shops: Shops) -> None:
    shop = shops.open(OUTBOX_DOMAIN_RATES={"gmail.com": "1/day"})
    stuck(shop, Status.FAILED)
    assert due(shop.runtime) == 0
    for address in ("a@gmail.com", "a@x.example", "b@x.example"):
        shop.enqueue(address)
    shop.enqueue("c@x.example", priority="urgent")
    shop.enqueue(send_at=datetime.now(UTC) + timedelta(days=1))
    assert due(shop.runtime) == sum(shop.outbox.stats().due.values()) == 4


def test_drain_has_done_its_work_where_another_server_took_the_emails(
    shops: Shops, catcher: Catcher
) -> None:
    servers = [
        {"name": "gone", "server": "127.0.0.1", "port": free_port()},
        {"name": "spare", "server": "127.0.0.1", "port": catcher.port, "order": 2},
    ]
    shop = shops.open(OUTBOX_SERVERS=servers)
    shop.enqueue()
    assert "1 email handled" in runner(shop)("drain").output
    assert len(catcher.emails) == 1


def test_pause_and_resume_say_what_changed(shop: Shop, run: Run) -> None:
    shop.enqueue()
    assert "all is paused" in run("pause").output
    assert "all was paused already" in run("pause").output
    assert "0 emails handed out" in run("sweep").output
    assert "all is resumed" in run("resume").output
    assert "all was not paused" in run("resume").output
    assert "urgent is paused" in run("pause", "urgent").output
    run("pause", "everything", code=2)


@pytest.mark.parametrize("command", ["sweep", "drain"])
def test_who_sends_by_hand_is_told_what_is_paused(shop: Shop, run: Run, command: str) -> None:
    assert "paused" not in run(command).output
    shop.enqueue()
    run("pause")
    run("pause", "bulk")
    output = run(command).output
    assert "0 emails" in output
    assert "paused: all (flask outbox resume all)" in output
    assert "paused: bulk (flask outbox resume bulk)" in output


def test_purge_removes_what_finished_long_ago(shop: Shop, run: Run) -> None:
    email = shop.enqueue()
    made = shop.sending(email.id)
    shop.record(made.token, [sent(email.id)])
    assert "0 emails removed" in run("purge").output
    shop.later(31 * 86_400)
    assert "1 email removed" in run("purge").output
    run("purge", "--days", "-1", code=2)


def test_a_purge_beside_another_one_tells_of_it(
    shop: Shop, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.enqueue()
    with closing(purge(shop.database, Retention.of_all(-60.0))) as other:
        next(other)
        seconds = count(0.0, 100.0)
        monkeypatch.setattr(shop.runtime, "clock", lambda: next(seconds))
        assert "another purge is under way" in run("purge", code=1).output
    assert "0 emails removed" in run("purge").output


def test_suppress_keeps_the_list(shop: Shop, run: Run) -> None:
    assert "suppressed" in run("suppress", "A@x.example", "--reason", "asked").output
    assert "already" in run("suppress", "a@x.example").output
    assert "a@x.example  asked" in run("suppress").output
    assert "taken off" in run("suppress", "a@X.example", "--remove").output
    assert "was not on" in run("suppress", "a@x.example", "--remove").output
    run("suppress", "nobody", code=2)
    assert "--remove needs an address" in run("suppress", "--remove", code=2).output


def test_the_whole_list_is_shown_and_read_page_by_page(
    shop: Shop, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "MOST_ON_PAGE", 2)
    reads = list[str]()
    event.listen(shop.engine, "before_cursor_execute", lambda *told: reads.append(told[2]))
    for number in range(1, 5):
        shop.outbox.suppress(f"{number}@x.example", "asked")
        reads.clear()
        listed = [f"{each}@x.example  asked" for each in range(1, number + 1)]
        assert run("suppress").output.splitlines() == listed
        assert sum("FROM outbox_suppression" in one for one in reads) == number // 2 + 1


@pytest.mark.long
def test_health_exits_1_when_the_oldest_due_email_is_too_old(shop: Shop, run: Run) -> None:
    figures = parsed(run("health", "--json"))
    assert (figures["healthy"], figures["oldest_due_seconds"]) == (True, 0.0)
    assert (figures["limit"], figures["alerts"], figures["crashing"]) == (300.0, [], [])
    shop.enqueue()
    shop.later(301)
    assert "oldest due email" in run("health", code=1).output
    assert parsed(run("health", "--json", code=1))["healthy"] is False
    run("health", "--max-age", 1000)


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("number", ["nan", "inf", "-1", "1e300"])
@pytest.mark.parametrize("command", [("health", "--max-age"), ("purge", "--days")])
def test_a_number_that_is_none_is_refused(command: tuple[str, str], number: str, run: Run) -> None:
    assert "range 0<=x<=" in run(*command, number, code=2).output


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"OUTBOX_WINDOWS": 5}, "did you mean OUTBOX_WINDOW?"),
        ({"OUTBOX_ON_UNKNOWN": "guess"}, "OUTBOX_ON_UNKNOWN must be one of resend, hold"),
        ({"OUTBOX_BATCH": 0}, "OUTBOX_BATCH must be at least 1"),
        ({"OUTBOX_BATCH": b"200"}, "OUTBOX_BATCH must be a whole number, not bytes"),
        ({"OUTBOX_LEASE": float("nan")}, "OUTBOX_LEASE must be at least"),
        ({"OUTBOX_WINDOW": 500}, "OUTBOX_WINDOW must not be greater than OUTBOX_BATCH"),
    ],
)
def test_a_wrong_setting_is_told_at_the_start(
    shops: Shops, config: dict[str, object], told: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        shops.open(**config)
    assert told in str(caught.value)
