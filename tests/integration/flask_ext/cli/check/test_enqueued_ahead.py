"""`check` tells of emails that were enqueued while the database's clock was ahead."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from outbox import Priority
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.each_database

AHEAD = "while the database's clock was ahead"


def check(shop: Shop) -> list[str]:
    """Return the lines of `check` that tell of it."""
    lines = runner(shop)("check", code=1).output.splitlines()  # no beat runs here
    return [line for line in lines if AHEAD in line]


def enqueue_ahead(shop: Shop, seconds: float, **options: object) -> int:
    shop.later(seconds)
    email = shop.enqueue(**options)
    shop.later(-seconds)
    return email.id


def test_emails_that_wait_for_the_clock_are_told_with_the_remedy(shop: Shop) -> None:
    shop.enqueue()
    first = enqueue_ahead(shop, 600)
    enqueue_ahead(shop, 1200, priority=Priority.BULK)
    (line,) = check(shop)
    assert line.startswith(f"warn   2 emails were enqueued {AHEAD}")
    assert f"flask outbox cancel --id {first}, then flask outbox send-again {first}" in line
    (seconds,) = re.findall(r"the last in (\d+) s", line)
    assert 600 < int(seconds) <= 1200


@pytest.mark.long
def test_the_remedy_has_one_leave_now(shop: Shop) -> None:
    email_id = enqueue_ahead(shop, 600)
    assert check(shop)
    run = runner(shop)
    run("cancel", "--id", email_id)
    run("send-again", email_id)
    assert check(shop) == []
    assert shop.outbox.backlog().due == 1


def test_what_is_scheduled_or_a_little_ahead_is_not_told(shop: Shop) -> None:
    shop.enqueue(send_at=datetime.now(UTC) + timedelta(days=1))
    enqueue_ahead(shop, 600, send_at=datetime.now(UTC) + timedelta(days=1))
    enqueue_ahead(shop, 30)
    assert check(shop) == []
