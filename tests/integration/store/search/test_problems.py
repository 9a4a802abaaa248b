"""What needs a person is noted by the database itself, listed newest first, and grouped."""

from __future__ import annotations

from datetime import datetime

import pytest

from outbox import InvalidMessage, Status
from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.transaction import Phase, Reply, Verdict
from tests.integration.store.search.test_find import listed
from tests.support.shop.shell import stuck
from tests.support.shop.shop import Shop, entry

pytestmark = pytest.mark.each_database

FULL = Reply(code=552, enhanced="5.2.2", text="mailbox full")


def refused(shop: Shop, to: str, reply: Reply, server: str = "mx.example:25") -> int:
    """Return an email that a server has refused; a second passes before each."""
    shop.later(1)
    email = shop.enqueue(to)
    made = shop.sending(email.id)
    end = Outcome(status=Status.FAILED, reply=reply, attempts_added=1)
    shop.record(made.token, [entry(email.id, end, Verdict.FAIL, phase=Phase.RCPT, server=server)])
    return email.id


def needs(shop: Shop, email_id: int) -> tuple[datetime | None, str | None]:
    row = shop.email_row(email_id)
    return row.attention_at, row.attention_status


@pytest.mark.parametrize("status", [Status.FAILED, Status.UNKNOWN])
def test_moment_and_status_come_and_go_with_the_need(shop: Shop, status: Status) -> None:
    email_id = stuck(shop, status)
    assert needs(shop, email_id) == (shop.email_row(email_id).finished_at, status)
    assert shop.email_row(email_id).finished_at is not None
    shop.outbox.retry(email_id)
    assert needs(shop, email_id) == (None, None)
    other = stuck(shop, Status.UNKNOWN)
    shop.outbox.resolve(other, "failed")
    assert needs(shop, other) == (shop.email_row(other).finished_at, Status.FAILED)


@pytest.mark.long
def test_they_are_listed_in_the_order_in_which_they_came_to_need_a_person(shop: Shop) -> None:
    ids = [refused(shop, f"a@{n}.example", FULL) for n in range(5)]
    shop.outbox.retry(ids[1])
    shop.later(60)
    made = shop.sending(ids[1])
    end = Outcome(status=Status.FAILED, reply=FULL, attempts_added=1)
    shop.record(made.token, [entry(ids[1], end, Verdict.FAIL)])
    shop.enqueue()
    expected = [ids[1], *(i for i in reversed(ids) if i != ids[1])]
    for limit in (1, 2, 5, 6):
        assert listed(shop, limit, status="failed") == expected
    since = shop.outbox.get(ids[3])
    assert since is not None
    assert listed(shop, status="failed", since=since.created_at) == [ids[4], ids[3]]
    assert listed(shop, status="failed", recipient="a@2.example") == [ids[2]]
    page = shop.outbox.list(status="failed", limit=1)
    with pytest.raises(InvalidMessage, match="after: is a place in another list"):
        shop.outbox.list(after=page.next)
    with pytest.raises(InvalidMessage, match="after: is a place in another list"):
        shop.outbox.list(status="failed", after=str(ids[3]))


@pytest.mark.long
def test_they_are_grouped_by_what_went_wrong_and_where(shop: Shop) -> None:
    refused(shop, "a@one.example", FULL)
    refused(shop, "a@two.example", FULL)
    text = Reply(code=552, enhanced="5.2.2", text="the newest text")
    newest = refused(shop, "B@ONE.example", text)
    refused(shop, "a@one.example", FULL, server="other:25")
    unknown = stuck(shop, Status.UNKNOWN)
    found = shop.outbox.problems()
    shown = [(p.status, p.phase, p.code, p.server, p.domain, p.emails) for p in found.groups]
    assert shown == [
        ("unknown", "dot", 550, "mx.example:25", "customers.example", 1),
        ("failed", "rcpt", 552, "other:25", "one.example", 1),
        ("failed", "rcpt", 552, "mx.example:25", "one.example", 2),
        ("failed", "rcpt", 552, "mx.example:25", "two.example", 1),
    ]
    assert (found.groups[0].id, found.groups[2].id) == (unknown, newest)
    assert (found.groups[2].reply, found.groups[2].enhanced) == ("the newest text", "5.2.2")
    (email,) = shop.outbox.list(recipient="b@one.example")
    assert found.groups[2].since == email.finished_at
    assert (found.emails, found.more_emails, found.more_groups) == (5, False, False)
    few = shop.outbox.problems(limit=2)
    assert (few.groups, few.more_groups) == (found.groups[:2], True)


def test_an_email_that_no_server_judged_is_shown_too(shop: Shop) -> None:
    email_id = stuck(shop, Status.FAILED)
    with shop.engine.begin() as connection:
        connection.execute(shop.tables.attempt.delete())
    (group,) = shop.outbox.problems().groups
    assert (group.id, group.phase, group.code, group.reply) == (email_id, "", 0, "")


def test_only_the_newest_are_looked_at(shop: Shop) -> None:
    for number in range(3):
        refused(shop, f"a@{number}.example", FULL)
    found = shop.outbox.problems(newest=2)
    assert [group.domain for group in found.groups] == ["2.example", "1.example"]
    assert (found.emails, found.more_emails) == (2, True)


@pytest.mark.matrix
@pytest.mark.parametrize("limit", [0, 1001, True, None, "1"])
def test_the_limit_is_checked(shop: Shop, limit: object) -> None:
    with pytest.raises(InvalidMessage, match="limit: must be a number from 1 to 1000"):
        shop.outbox.problems(limit=limit)  # type: ignore[arg-type]
    with pytest.raises(InvalidMessage, match="newest: must be a number from 1 to 10000"):
        shop.outbox.problems(newest=0)
