"""`flask outbox …`: what each command prints, changes, and exits with."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from itertools import count
from typing import Any

import pytest
from click.testing import Result
from sqlalchemy import Connection

from outbox import ConfigurationError, Status
from outbox.domain.conclusion import Conclusion
from outbox.domain.verdict import Reply, Verdict
from outbox.store import parts, resolve, scan
from outbox.store.database import Database
from outbox.store.purge import purge
from outbox.store.rate import take
from tests.integration.conftest import Shop, Shops, entry, message, sent
from tests.servers.catcher import Catcher
from tests.servers.ports import free_port

Run = Callable[..., Result]


@pytest.fixture
def run(shop: Shop) -> Run:
    """Runs `flask outbox` with these words."""
    return runner(shop)


def runner(shop: Shop) -> Run:
    def run(*words: object, code: int = 0) -> Result:
        result = shop.app.test_cli_runner().invoke(args=["outbox", *map(str, words)])
        assert result.exit_code == code, result.output
        return result

    return run


def parsed(result: Result) -> Any:
    return json.loads(result.stdout)


def stuck(shop: Shop, status: Status) -> int:
    email = shop.enqueue()
    made = shop.sending(email.id)
    end = Conclusion(
        status=status,
        reply=Reply(code=550, text="no \u202e such"),
        attempts=1,
        doubts=int(status is Status.UNKNOWN),
    )
    shop.record(made.token, [entry(email.id, end, Verdict.FAIL)])
    return email.id


def test_stats_show_statuses_and_what_waits(shop: Shop, run: Run) -> None:
    shop.enqueue()
    run("pause", "bulk")
    figures = parsed(run("stats", "--json"))
    assert set(figures) == {
        "statuses",
        "due",
        "lanes",
        "closed",
        "oldest_due_seconds",
        "batches_in_flight",
        "paused",
        "breakers",
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


def test_stats_show_lanes_that_wait_and_rates_that_are_used_up(shops: Shops) -> None:
    shop = shops.open(OUTBOX_DOMAIN_RATES={"gmail.com": "1/day"})
    run = runner(shop)
    shop.enqueue("a@gmail.com")
    shop.enqueue("a@x.example")
    rate = shop.runtime.lanes.domains["gmail.com"]
    take(shop.database, {"domain:gmail.com": (rate, 1), "domain:gmail.com/bulk": (rate, 1)})
    figures = parsed(run("stats", "--json"))
    assert figures["lanes"] == {"": 1, "@gmail.com": 1}
    assert [bucket["bucket"] for bucket in figures["closed"]] == ["domain:gmail.com"]
    text = run("stats").output
    assert "due in lane @gmail.com: 1" in text
    assert "domain:gmail.com is used up for 86" in text
    assert "/bulk" not in text


def test_list_filters_and_speaks_json(shop: Shop, run: Run) -> None:
    with shop.session() as session:
        email = shop.outbox.enqueue(message("a@x.example", "b@x.example"), session=session, tag="t")
        session.commit()
    (listed,) = parsed(run("list", "--json", "--tag", "t"))
    assert listed["id"] == email.id
    assert (listed["status"], listed["priority"], listed["recipients"]) == ("pending", "normal", 2)
    assert {"recipient", "attempts", "tag", "key", "created_at", "due_at", "send_at"} <= set(listed)
    assert parsed(run("list", "--json", "--status", "sent")) == []
    assert "a@x.example +1" in run("list").output
    run("list", "--status", "nonsense", code=2)


def test_show_tells_all_of_one_mail_and_exits_1_where_there_is_none(shop: Shop, run: Run) -> None:
    email_id = stuck(shop, Status.FAILED)
    shown = parsed(run("show", email_id, "--json"))
    assert (shown["status"], shown["subject"]) == ("failed", "Order 1")
    assert shown["recipient_list"][0]["address"] == "a@customers.example"
    assert shown["attempt_list"][0]["code"] == 550
    text = run("show", email_id).output
    assert "fail at dot: 550 no \ufffd such" in text  # a stranger's text steers no terminal
    assert "no mail 99" in run("show", 99, code=1).output


@pytest.mark.parametrize("status", [Status.FAILED, Status.UNKNOWN])
def test_retry_sends_again_by_id_and_by_status(shop: Shop, run: Run, status: Status) -> None:
    email_id = stuck(shop, status)
    run("retry", code=2)
    run("retry", 1, "--status", "failed", code=2)
    run("retry", 99, code=1)
    assert "1 mails are pending" in run("retry", email_id).output
    assert shop.status(email_id) is Status.PENDING
    other = stuck(shop, status)
    run("retry", "--status", status.value)
    assert shop.status(other) is Status.PENDING
    run("retry", "--status", status.value, code=1)


def test_retry_by_status_goes_through_the_emails_in_short_transactions(
    shop: Shop, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "LOOK", 2)
    monkeypatch.setattr(parts, "PART", 2)
    failed = [stuck(shop, Status.FAILED) for _ in range(5)]
    kept = [stuck(shop, Status.UNKNOWN), shop.enqueue().id]
    chosen: list[list[int]] = []
    retry = resolve.retry

    def note(connection: Connection, database: Database, ids: list[int]) -> int:
        chosen.append(ids)
        return retry(connection, database, ids)

    monkeypatch.setattr(resolve, "retry", note)
    assert "5 mails are pending" in run("retry", "--status", "failed").output
    assert chosen == [failed[:2], failed[2:4], failed[4:]]
    assert {shop.status(email_id) for email_id in failed} == {Status.PENDING}
    assert [shop.status(email_id) for email_id in kept] == [Status.UNKNOWN, Status.PENDING]


def test_cancel_by_tag_goes_through_the_tag_in_short_transactions(
    shop: Shop, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "LOOK", 3)
    monkeypatch.setattr(parts, "PART", 2)
    other = [shop.enqueue().id]
    tagged = [shop.enqueue(tag="news").id for _ in range(5)]
    other.append(shop.enqueue(tag="old").id)
    written: list[int] = []
    transaction = shop.database.run

    def note(work: Callable[[Connection], int]) -> int:
        written.append(transaction(work))
        return written[-1]

    monkeypatch.setattr(shop.database, "run", note)
    assert "5 mails cancelled" in run("cancel", "--tag", "news").output
    assert written == [2, 1, 2]
    assert {shop.status(email_id) for email_id in tagged} == {Status.CANCELLED}
    assert {shop.status(email_id) for email_id in other} == {Status.PENDING}
    run("cancel", "--tag", "none", code=1)


def test_resolve_settles_what_is_in_doubt(shop: Shop, run: Run) -> None:
    first, second = stuck(shop, Status.UNKNOWN), stuck(shop, Status.UNKNOWN)
    run("resolve", first, "--as", "sent")
    run("resolve", second, "--as", "failed")
    assert (shop.status(first), shop.status(second)) == (Status.SENT, Status.FAILED)
    run("resolve", first, "--as", "sent", code=1)
    run("resolve", first, code=2)
    run("resolve", first, "--as", "pending", code=2)


def test_cancel_withdraws_by_id_key_or_tag(shop: Shop, run: Run) -> None:
    shop.enqueue(key="k")
    shop.enqueue(tag="t")
    email = shop.enqueue()
    run("cancel", "--key", "k")
    run("cancel", "--tag", "t")
    assert "1 mails cancelled" in run("cancel", "--id", email.id).output
    assert {row.status for row in shop.rows(shop.tables.email)} == {"cancelled"}
    run("cancel", "--id", email.id, code=1)
    run("cancel", code=2)
    run("cancel", "--id", 1, "--tag", "t", code=2)


def test_sweep_hands_out_what_is_due(shop: Shop, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[tuple[object, ...]] = []
    monkeypatch.setattr(shop.runtime, "publish", lambda *words: published.append(words))
    email = shop.enqueue()
    assert "1 mails handed out" in run("sweep").output
    token = shop.mail(email.id).token
    assert published == [("outbox.send", "outbox.normal", str(token))]


def test_drain_sends_until_nothing_is_due(shops: Shops, catcher: Catcher) -> None:
    shop = shops.open(MAIL_PORT=catcher.port)
    run = runner(shop)
    for _ in range(3):
        shop.enqueue()
    assert "3 mails handled" in run("drain").output
    assert len(catcher.mails) == 3
    catcher.stop()
    shop.enqueue()
    assert "is halted since" in run("drain", code=1).output


def test_drain_has_done_its_work_where_another_server_took_the_mails(
    shops: Shops, catcher: Catcher
) -> None:
    servers = [
        {"name": "gone", "server": "127.0.0.1", "port": free_port()},
        {"name": "spare", "server": "127.0.0.1", "port": catcher.port, "order": 2},
    ]
    shop = shops.open(OUTBOX_SERVERS=servers)
    shop.enqueue()
    assert "1 mails handled" in runner(shop)("drain").output
    assert len(catcher.mails) == 1


def test_pause_and_resume_say_what_changed(shop: Shop, run: Run) -> None:
    shop.enqueue()
    assert "all is paused" in run("pause").output
    assert "all was paused already" in run("pause").output
    assert "0 mails handed out" in run("sweep").output
    assert "all is resumed" in run("resume").output
    assert "all was not paused" in run("resume").output
    assert "urgent is paused" in run("pause", "urgent").output
    run("pause", "everything", code=2)


def test_purge_removes_what_finished_long_ago(shop: Shop, run: Run) -> None:
    email = shop.enqueue()
    made = shop.sending(email.id)
    shop.record(made.token, [sent(email.id)])
    assert "0 mails removed" in run("purge").output
    shop.later(31 * 86_400)
    assert "1 mails removed" in run("purge").output
    run("purge", "--days", "-1", code=2)


def test_a_purge_beside_another_one_tells_of_it(
    shop: Shop, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.enqueue()
    with closing(purge(shop.database, older_than=-60.0)) as other:
        next(other)
        seconds = count(0.0, 100.0)
        monkeypatch.setattr(shop.runtime, "clock", lambda: next(seconds))
        assert "another purge is under way" in run("purge", code=1).output
    assert "0 mails removed" in run("purge").output


def test_suppress_keeps_the_list(shop: Shop, run: Run) -> None:
    assert "suppressed" in run("suppress", "A@x.example", "--reason", "asked").output
    assert "already" in run("suppress", "a@x.example").output
    assert "a@x.example  asked" in run("suppress").output
    assert "taken off" in run("suppress", "a@X.example", "--remove").output
    assert "was not on" in run("suppress", "a@x.example", "--remove").output
    run("suppress", "nobody", code=2)


def test_health_exits_1_when_the_oldest_due_mail_is_too_old(shop: Shop, run: Run) -> None:
    figures = parsed(run("health", "--json"))
    assert (figures["healthy"], figures["oldest_due_seconds"]) == (True, 0.0)
    assert (figures["limit"], figures["alerts"]) == (300.0, [])
    shop.enqueue()
    shop.later(301)
    assert "oldest due mail" in run("health", code=1).output
    assert parsed(run("health", "--json", code=1))["healthy"] is False
    run("health", "--max-age", 1000)


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"OUTBOX_WINDOWS": 5}, "did you mean OUTBOX_WINDOW?"),
        ({"OUTBOX_ON_UNKNOWN": "guess"}, "OUTBOX_ON_UNKNOWN must be one of resend, hold"),
        ({"OUTBOX_BATCH": 0}, "OUTBOX_BATCH must be at least 1"),
        ({"OUTBOX_BATCH": "200"}, "OUTBOX_BATCH must be int, not str"),
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
