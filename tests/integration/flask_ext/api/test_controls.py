"""`Outbox.suppress`, `unsuppress`, `suppressed`, `pause`, `resume`, and what each argument is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC

import pytest
from sqlalchemy import select

from outbox import ConfigurationError, InvalidMessage, Outbox, Priority, Status
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops, message

pytestmark = pytest.mark.one_database("postgresql")


def test_the_suppression_list_is_kept(shop: Shop) -> None:
    outbox = shop.outbox
    assert outbox.suppressed() == ()
    assert outbox.suppress("B@x.example", "asked")
    assert outbox.suppress("a@x.example")
    assert not outbox.suppress("b@X.example", "again")
    first, second = outbox.suppressed()
    assert [(one.address, one.reason) for one in (first, second)] == [
        ("a@x.example", "by hand"),
        ("b@x.example", "asked"),
    ]
    assert first.created_at.tzinfo is UTC
    assert outbox.unsuppress("A@x.example")
    assert not outbox.unsuppress("a@x.example")
    assert outbox.suppressed() == (second,)


def test_who_is_suppressed_gets_nothing(shops: Shops, catcher: Catcher) -> None:
    shop = shops.open(MAIL_PORT=catcher.port)
    email = shop.enqueue("a@x.example")
    shop.outbox.suppress("a@x.example")
    drain(shop.runtime)
    assert (shop.status(email.id), catcher.emails) == (Status.SUPPRESSED, ())


@pytest.mark.parametrize("priority", [None, Priority.BULK, "bulk", 2])
def test_what_is_paused_waits(
    shops: Shops, catcher: Catcher, priority: Priority | str | int | None
) -> None:
    shop = shops.open(MAIL_PORT=catcher.port)
    outbox = shop.outbox
    assert [outbox.pause(priority), outbox.pause(priority)] == [True, False]
    stats = outbox.stats()
    assert stats.all_paused is (priority is None)
    assert stats.paused == (frozenset() if priority is None else {Priority.BULK})
    email = shop.enqueue(priority="bulk")
    assert drain(shop.runtime) == 0
    assert [outbox.resume(priority), outbox.resume(priority)] == [True, False]
    assert drain(shop.runtime) == 1
    assert shop.status(email.id) is Status.SENT


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("verb", ["pause", "resume"])
@pytest.mark.parametrize("priority", ["all", "high", 3, True, 1.0])
def test_a_priority_that_is_none_is_named(shop: Shop, verb: str, priority: object) -> None:
    with pytest.raises(InvalidMessage, match="priority: must be one of urgent, normal, bulk"):
        getattr(shop.outbox, verb)(priority)


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("address", "reason", "told"),
    [
        ("nobody", "asked", "address: an address has the form"),
        (None, "asked", "address: an address must be text"),
        ("a@x.example", "", "reason: must be text of 1 to 200 characters"),
        ("a@x.example", "x" * 201, "reason: must be text of 1 to 200 characters"),
        ("a@x.example", None, "reason: must be text of 1 to 200 characters"),
        ("a@x.example", "two\nlines", "reason: must not contain control characters"),
    ],
)
def test_suppress_names_the_argument_that_is_wrong(
    shop: Shop, address: str, reason: str, told: str
) -> None:
    with pytest.raises(InvalidMessage, match=told):
        shop.outbox.suppress(address, reason)
    assert shop.outbox.suppressed() == ()


@pytest.mark.databases("sqlite")
def test_unsuppress_names_the_address_that_is_none(shop: Shop) -> None:
    with pytest.raises(InvalidMessage, match="address: an address has the form"):
        shop.outbox.unsuppress("nobody")


WRITING: dict[str, Callable[[Outbox], object]] = {
    "retry": lambda outbox: outbox.retry(1),
    "resolve": lambda outbox: outbox.resolve(1, "sent"),
    "suppress": lambda outbox: outbox.suppress("a@x.example"),
    "unsuppress": lambda outbox: outbox.unsuppress("a@x.example"),
    "pause": lambda outbox: outbox.pause(),
    "resume": lambda outbox: outbox.resume(),
    "restored": lambda outbox: outbox.restored(),
    "moved": lambda outbox: outbox.moved(),
    "release": lambda outbox: outbox.release(everything=True),
}


@pytest.mark.matrix
@pytest.mark.each_database
@pytest.mark.parametrize("verb", WRITING)
def test_a_verb_does_not_wait_for_the_write_of_its_own_caller(shops: Shops, verb: str) -> None:
    """SQLite's one writer would be the caller: the wait would take minutes."""
    shop, db = shops.open_flask()
    with shop.app.app_context():
        shop.outbox.enqueue(message("a@x.example"))
        if shop.database.dialect == "sqlite":
            with pytest.raises(ConfigurationError, match="commit or roll back first"):
                WRITING[verb](shop.outbox)
        else:
            WRITING[verb](shop.outbox)
        db.session.rollback()
        shop.outbox.counts()  # a read leaves no lock
        db.session.execute(select(1))
        WRITING[verb](shop.outbox)
