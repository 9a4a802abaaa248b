"""The emails of one group of problems are found by what the group has in common, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from outbox import InvalidMessage, Status
from outbox.domain.delivery.transaction import Reply
from outbox.store.report_records import Problem
from tests.integration.store.search.test_find import listed
from tests.integration.store.search.test_problems import FULL, refused
from tests.support.shop.shell import runner, stuck
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.each_database

OTHER = Reply(code=552, enhanced="5.3.4", text="too big")


def words(group: Problem) -> dict[str, Any]:
    """Return the filters of a group, from what `problems` tells of it."""
    reply = f"{group.code} {group.enhanced}".strip() if group.code else "(none)"
    found = {"server": group.server, "phase": group.phase}
    named = {name: value or "(none)" for name, value in found.items()}
    return {"status": group.status, "domain": group.domain, "reply": reply, **named}


@pytest.mark.long
def test_each_group_lists_just_its_own_emails(shop: Shop) -> None:
    mine = [refused(shop, to, FULL) for to in ("a@one.example", "B@ONE.example")]
    others = [
        refused(shop, "a@two.example", FULL),
        refused(shop, "a@one.example", OTHER),
        refused(shop, "a@one.example", FULL, server="other:25"),
        stuck(shop, Status.UNKNOWN),
    ]
    lost = stuck(shop, Status.FAILED)
    with shop.engine.begin() as connection:
        attempt = shop.tables.attempt
        connection.execute(attempt.delete().where(attempt.c.email_id == lost))
    groups = [listed(shop, 1, **words(group)) for group in shop.outbox.problems().groups]
    assert groups == [[lost], *([one] for one in reversed(others)), mine[::-1]]
    assert listed(shop, status="failed", server="other:25") == [others[2]]
    assert listed(shop, status="failed", reply="(none)") == [lost]
    assert listed(shop, status="failed", recipient="b@one.example", reply="552 5.2.2") == mine[1:]
    told = runner(shop)("list", "--status", "failed", "--domain", "Two.Example").output
    assert told.split()[0] == str(others[0])


def test_a_page_reads_the_last_attempts_of_a_bounded_number(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outbox.store.search.page.MOST_OF_GROUP", 2)
    ids = [refused(shop, f"a@{n}.example", FULL) for n in range(4)]
    first = shop.outbox.list(status="failed", domain="1.example", limit=1)
    assert (len(first), first.next is not None) == (0, True)
    second = shop.outbox.list(status="failed", domain="1.example", limit=1, after=first.next)
    assert [email.id for email in second] == [ids[1]]


@pytest.mark.parametrize("name", ["domain", "server", "reply", "phase"])
def test_without_such_a_status_no_index_serves_them(shop: Shop, name: str) -> None:
    value = {"domain": "x.example", "server": "mx", "reply": "550", "phase": "rcpt"}[name]
    told = f"{name}: is in no index; indexes serve it beside status failed or unknown"
    for others in ({}, {"tag": "news"}, {"status": "sent"}):
        with pytest.raises(InvalidMessage) as refusal:
            shop.outbox.list(**{name: value}, **others)  # type: ignore[arg-type]
        assert str(refusal.value) == told
    assert "beside status failed" in runner(shop)("list", f"--{name}", value, code=2).output
