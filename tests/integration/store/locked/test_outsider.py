"""An email that a person's transaction holds tells nothing about a server: nobody waits for it."""

from __future__ import annotations

import pytest

from outbox.domain.delivery.blame import Traits
from outbox.domain.priority import Priority
from outbox.store.control.blame import comparison
from outbox.store.control.blame.comparison import outsider_waits
from tests.integration.store.locks import hold, in_time, no_waiting
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops, message
from tests.support.shop.steps.motion import Motion, standing

pytestmark = pytest.mark.databases("postgresql", "mariadb")

NEEDED = 4
BLOCKED = "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen"
WAYS = [("", one) for one in Priority]


def is_outsider(email: Traits) -> bool:
    return "other.example" in email.domains


@pytest.mark.parametrize("at_once", [1, comparison.AT_ONCE])
def test_only_an_outsider_that_nobody_holds_waits(
    shop: Shop, workers: Shops, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(comparison, "AT_ONCE", at_once)
    worker = workers.open()
    shop.enqueue("a@one.example")
    assert not outsider_waits(worker.database, WAYS, is_outsider)
    locked = [shop.enqueue(f"{name}@other.example") for name in "abc"]
    assert outsider_waits(worker.database, WAYS, is_outsider)
    with shop.session() as session, no_waiting(worker):
        for email in locked:  # one by one: for a list MariaDB locks the whole small table
            hold(shop, session, email.id)
        assert not in_time(lambda: outsider_waits(worker.database, WAYS, is_outsider), session)
        shop.enqueue("d@other.example")
        assert in_time(lambda: outsider_waits(worker.database, WAYS, is_outsider), session)


@pytest.mark.long
def test_a_server_that_refuses_everybody_is_halted_beside_an_outsider_that_is_locked(
    shop: Shop, workers: Shops, catcher: Catcher
) -> None:
    """Else each email fails for good, for as long as that transaction stays open."""
    catcher.reply_to_recipient = lambda _: BLOCKED
    with shop.session() as session:
        other = message("a@other.example")
        del other["From"]
        other["From"] = "else@else.example"
        locked = shop.outbox.enqueue(other, session=session)
        session.commit()
        key = locked.id
    for number in range(2 * NEEDED):
        shop.enqueue(f"reader@r{number}.example")
    worker = workers.open(MAIL_PORT=catcher.port, OUTBOX_REFUSED_ALIKE=NEEDED, OUTBOX_SLOTS=1)
    with shop.session() as session, no_waiting(worker):
        hold(shop, session, key)
        in_time(Motion(shop=worker).beat, session)
        assert standing(shop) == {("pending", 0, 0, 0): 2 * NEEDED + 1}
        (row,) = shop.rows(shop.tables.breaker)
        assert row.alert
