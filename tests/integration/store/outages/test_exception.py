"""An error of our own in a batch turns no known result into a doubt, and stops no other email."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from outbox.domain.delivery.outcome import LOST_DELAY
from outbox.smtp.client import Client
from outbox.store.records import ClaimedEmail
from outbox.worker.batch.next_window import NextWindow
from outbox.worker.batch.send_batch import send_batch
from outbox.worker.batch.watch.server_watch import Watch
from tests.support.servers.smtp.catcher import Catcher
from tests.support.servers.smtp.stateful import StatefulServer
from tests.support.shop.shop import Shop, Shops, addresses
from tests.support.shop.steps.raising import raise_when

pytestmark = pytest.mark.each_database


ENDS_THE_PROCESS = SystemExit, SoftTimeLimitExceeded
FAULTS = RuntimeError, MemoryError


def fail(monkeypatch: pytest.MonkeyPatch, error: type[BaseException], *, at: str) -> None:
    """Raise the error whenever this recipient's email is to be sent."""
    raise_when(monkeypatch, lambda envelope: at in envelope.recipients, error)


def batch_of(shops: Shops, catcher: Catcher, emails: int) -> Shop:
    shop = shops.open(MAIL_PORT=catcher.port, OUTBOX_WINDOW=2)
    for address in addresses(emails):
        shop.enqueue(address)
    return shop


def crashes(shop: Shop) -> list[int]:
    email = shop.tables.email
    return [row.crashes for row in sorted(shop.rows(email), key=lambda row: row.id)]


def try_all(shop: Shop, error: type[BaseException]) -> None:
    for made in shop.claim():
        with suppress(error):
            send_batch(shop.runtime, made.token)


@pytest.mark.matrix
@pytest.mark.parametrize("error", [*ENDS_THE_PROCESS, *FAULTS])
def test_what_was_sent_is_recorded_and_the_rest_of_the_batch_goes_back_at_once(
    shops: Shops, catcher: Catcher, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    shop = batch_of(shops, catcher, 8)
    fail(monkeypatch, error, at=addresses(8)[3])
    (made,) = shop.claim()
    with pytest.raises(error):
        send_batch(shop.runtime, made.token)
    assert shop.statuses() == ["sent"] * 3 + ["pending"] * 5
    assert crashes(shop) == [0, 0, 0, int(error in FAULTS), 0, 0, 0, 0]
    assert shop.rows(shop.tables.lease) == []
    assert len(catcher.emails) == 3


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("error", FAULTS)
def test_an_email_that_makes_each_try_fail_stops_no_other_and_ends(
    shops: Shops, catcher: Catcher, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    shop = batch_of(shops, catcher, 8)
    fail(monkeypatch, error, at=addresses(8)[0])
    for statuses in (["pending"] * 8, ["pending"] + ["sent"] * 7):
        try_all(shop, error)
        assert shop.statuses() == statuses
    while "pending" in shop.statuses():
        shop.later(LOST_DELAY * crashes(shop)[0])
        try_all(shop, error)
    assert (shop.statuses(), crashes(shop)) == (["failed"] + ["sent"] * 7, [5] + [0] * 7)
    told = [row.reply for row in shop.rows(shop.tables.attempt) if row.verdict == "unsent"]
    assert told == [f"the worker failed: {error.__name__}"] * 5


@pytest.mark.matrix
@pytest.mark.parametrize("error", FAULTS)
def test_an_email_whose_content_may_have_left_is_in_doubt_and_the_rest_goes_back(
    shops: Shops, catcher: Catcher, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    shop = batch_of(shops, catcher, 4)

    def failing(*_: object) -> None:
        raise error

    # A double, as above: the content is with the server, and its reply is not read.
    monkeypatch.setattr(Client, "_conclude", failing)
    (made,) = shop.claim()
    with pytest.raises(error):
        send_batch(shop.runtime, made.token)
    monkeypatch.undo()
    assert shop.statuses() == ["sending", "pending", "pending", "pending"]
    shop.rescue()
    assert (shop.statuses()[0], crashes(shop)) == ("pending", [1, 0, 0, 0])
    assert len(catcher.emails) == 1


@pytest.mark.matrix
@pytest.mark.parametrize("error", [*ENDS_THE_PROCESS, *FAULTS])
@pytest.mark.parametrize(
    ("place", "reply", "status", "charged"),
    [
        (".", "250 2.0.0 queued", "sent", (1, False)),
        (".", "554 5.7.1 no", "failed", (1, False)),
        ("RCPT", "450 4.2.0 later", "pending", (1, False)),
        ("MAIL", "421 4.3.2 later", "pending", (0, True)),
    ],
    ids=["taken", "refused", "put off", "halted"],
)
def test_an_error_while_a_reply_is_weighed_leaves_what_the_server_said(
    shops: Shops,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
    place: str,
    reply: str,
    status: str,
    charged: tuple[int, bool],
) -> None:
    def failing(*_: object) -> None:
        raise error

    with StatefulServer({place: reply}) as server:
        shop = shops.open(MAIL_PORT=server.port, OUTBOX_WINDOW=2)
        for address in addresses(4):
            shop.enqueue(address)
        monkeypatch.setattr(Watch, "note", failing)  # a double, as above
        (made,) = shop.claim()
        with pytest.raises(error):
            send_batch(shop.runtime, made.token)
    assert shop.statuses() == [status] + ["pending"] * 3
    assert shop.rows(shop.tables.lease) == []
    first, *others = shop.rows(shop.tables.email)
    attempts, may_be_to_blame = charged
    assert (first.attempts, first.unknown_count) == (attempts, 0)
    assert first.crashes == int(may_be_to_blame and error in FAULTS)
    assert {(row.attempts, row.crashes) for row in others} == {(0, 0)}


def test_an_error_while_a_reply_is_weighed_leaves_what_the_server_said_to_each_recipient(
    shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more recipients than the server takes at once, the others get the email later."""

    def failing(*_: object) -> None:
        raise RuntimeError

    with StatefulServer(most=1) as server:
        shop = shops.open(MAIL_PORT=server.port)
        email = shop.enqueue(*addresses(2))
        with monkeypatch.context() as patch:
            patch.setattr(Watch, "note", failing)
            try_all(shop, RuntimeError)
        row = shop.email_row(email.id)
        assert (row.status, row.attempts, row.crashes, row.unknown_count) == ("pending", 0, 0, 0)
        assert list(shop.recipients(email.id).values()) == ["sent", "pending"]
        try_all(shop, RuntimeError)
    assert shop.status(email.id) == "sent"
    assert set(server.copies().values()) == {1}


@pytest.mark.matrix
@pytest.mark.parametrize("error", [*ENDS_THE_PROCESS, *FAULTS])
def test_an_error_between_two_windows_leaves_it_to_the_rescue_if_any_email_may_be_to_blame(
    shops: Shops, catcher: Catcher, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    shop = batch_of(shops, catcher, 6)
    cut = NextWindow.cut

    def failing(self: NextWindow, left: deque[ClaimedEmail], **options: Any) -> Any:
        if len(left) == 4:
            raise error
        return cut(self, left, **options)

    monkeypatch.setattr(NextWindow, "cut", failing)  # a double, as above
    (made,) = shop.claim()
    with pytest.raises(error):
        send_batch(shop.runtime, made.token)
    left = "claimed" if error in FAULTS else "pending"
    assert shop.statuses() == ["sent"] * 2 + [left] * 4
    shop.rescue()
    assert shop.statuses() == ["sent"] * 2 + ["pending"] * 4
    assert crashes(shop) == [0, 0] + [int(error in FAULTS)] * 4
