"""A server that does not have the opening of a window yet, or has lost it: nothing is sent twice.

A node of a Galera cluster that lags behind is such a server, and so is a replica that was promoted
too soon. What it does not have is taken out of its tables here, and comes back where it catches up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from outbox import Status
from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.transaction import Reply, Verdict
from outbox.store.transitions.window import LOST, finish
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher, CaughtMail
from tests.support.shop.shop import WORKER, Shop, Shops, addresses, entry, sent

pytestmark = pytest.mark.each_database

PATIENCE = 60.0
WINDOW = 2
BEHIND = uuid4()


def lacks_opening(shop: Shop) -> None:
    """Have the server lack the opening of the window that is open."""
    email = shop.tables.email
    with shop.engine.begin() as connection:
        closed = sa.update(email).values(status=Status.CLAIMED)
        connection.execute(closed.where(email.c.status == Status.SENDING))


def lacks_claim(shop: Shop) -> UUID:
    """Have the emails of the open window be found by no token; return their own."""
    email = shop.tables.email
    with shop.engine.begin() as connection:
        is_open = email.c.status == Status.SENDING
        (token,) = set(connection.execute(sa.select(email.c.token).where(is_open)).scalars())
        connection.execute(sa.update(email).where(is_open).values(token=BEHIND))
    assert isinstance(token, UUID)
    return token


def catch_up(shop: Shop, token: UUID) -> None:
    email = shop.tables.email
    with shop.engine.begin() as connection:
        connection.execute(sa.update(email).where(email.c.token == BEHIND).values(token=token))


def before_reply(catcher: Catcher, number: int, act: Callable[[], object]) -> None:
    """Act when the server has the content with this number, before it accepts it."""
    former = catcher.reply_to_content

    def reply(mail: CaughtMail) -> str | None:
        if len(catcher.emails) == number - 1:
            act()
        return former(mail)

    catcher.reply_to_content = reply


def drained(shop: Shop) -> None:
    """Send all that is due, also what a thread gives back."""
    drain(shop.runtime)
    assert shop.runtime.unrecorded.wait(PATIENCE)
    drain(shop.runtime)


@pytest.fixture
def shop(shops: Shops, catcher: Catcher) -> Shop:
    shop = shops.open(MAIL_PORT=catcher.port, OUTBOX_WINDOW=WINDOW, OUTBOX_SLOTS=1)
    for address in addresses(2 * WINDOW):
        shop.enqueue(address)
    return shop


def test_a_result_is_recorded_once_the_server_has_caught_up(shop: Shop, catcher: Catcher) -> None:
    tokens = list[UUID]()
    before_reply(catcher, WINDOW, lambda: tokens.append(lacks_claim(shop)))
    before_reply(catcher, WINDOW + 1, lambda: catch_up(shop, tokens[0]))
    drained(shop)
    assert shop.statuses() == [Status.SENT] * 2 * WINDOW
    assert set(catcher.copies().values()) == {1}
    assert shop.count(shop.tables.attempt) == 2 * WINDOW
    assert shop.counter(LOST) == WINDOW
    assert shop.count(shop.tables.lease) == 0


@pytest.mark.matrix
@pytest.mark.parametrize("window", [1, 2], ids=["the first window", "the last window"])
def test_a_result_is_recorded_though_its_window_was_opened_on_a_server_that_is_gone(
    shop: Shop, catcher: Catcher, window: int
) -> None:
    before_reply(catcher, window * WINDOW, lambda: lacks_opening(shop))
    drained(shop)
    assert shop.statuses() == [Status.SENT] * 2 * WINDOW
    assert set(catcher.copies().values()) == {1}
    assert shop.count(shop.tables.attempt) == 2 * WINDOW
    assert shop.count(shop.tables.lease) == 0


def test_the_rest_of_an_email_leaves_only_when_its_first_part_is_recorded(
    shops: Shops, catcher: Catcher
) -> None:
    """Of several recipients the first one has a copy, which the server does not note."""
    shop = shops.open(MAIL_PORT=catcher.port)
    first, second = addresses(2)
    email = shop.enqueue(first, second)
    before_reply(catcher, 1, lambda: lacks_opening(shop))
    rest = iter(["452 4.5.3 too many recipients"])
    catcher.reply_to_recipient = lambda to: next(rest, None) if to == second else None
    drained(shop)
    assert shop.status(email.id) is Status.SENT
    assert shop.recipients(email.id) == {first: "sent", second: "sent"}
    assert set(catcher.copies().values()) == {1}


def test_what_was_sent_is_in_doubt_where_the_server_has_it_only_after_the_end(
    shop: Shop, catcher: Catcher
) -> None:
    tokens = list[UUID]()
    before_reply(catcher, 2 * WINDOW, lambda: tokens.append(lacks_claim(shop)))
    drained(shop)
    catch_up(shop, tokens[0])
    assert sorted(shop.statuses()) == [Status.SENDING] * WINDOW + [Status.SENT] * WINDOW
    assert set(catcher.copies().values()) == {1}


def test_an_end_gives_back_nothing_of_which_a_result_is_lost(shop: Shop) -> None:
    """The row comes to light behind the result's own look."""
    first, second, third, fourth = (row.id for row in shop.rows(shop.tables.email))
    made = shop.started()
    shop.open(made.token, first)
    done = finish(shop.database, made.token, [sent(first), sent(second)], worker=WORKER)
    assert done.written == {first}
    assert done.lost == {second}
    assert shop.status(second) is Status.CLAIMED
    assert [shop.status(each) for each in (third, fourth)] == [Status.PENDING] * 2
    (lease,) = shop.rows(shop.tables.lease)
    assert lease.started_at is not None
    done = finish(shop.database, made.token, [replace(sent(second), is_sought=True)], worker=WORKER)
    assert done.written == {second}
    assert (shop.status(second), shop.count(shop.tables.lease)) == (Status.SENT, 0)


def test_a_result_that_is_lost_again_is_counted_once_and_changes_nothing(shop: Shop) -> None:
    email = shop.rows(shop.tables.email)[0].id
    made = shop.lose(email)
    kept, refused = shop.runtime.unrecorded, Outcome(status=Status.FAILED, reply=Reply(code=550))
    before = shop.email_row(email)
    failed = entry(email, refused, Verdict.FAIL)
    shop.record(made.token, [failed])
    kept.keep(made.token, [replace(failed, is_sought=True)])
    assert kept.wait(PATIENCE)
    assert shop.email_row(email) == before
    assert shop.counter(LOST) == 1
