"""What a person says of an email in doubt is written down, as far as it is true."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from outbox import Status
from outbox.store.transitions.resolve import resolve
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.each_database


@pytest.mark.parametrize("outcome", [Status.SENT, Status.FAILED])
def test_an_email_that_a_recipient_has_ends_sent_whatever_became_of_the_other(
    shop: Shop, outcome: Status
) -> None:
    email = shop.enqueue("has-it@x.example", "in-doubt@x.example", on_unknown="hold")
    shop.lose(email.id)
    recipient = shop.tables.recipient
    with shop.engine.begin() as connection:
        first = recipient.c.address == "has-it@x.example"
        connection.execute(update(recipient).where(first).values(status="sent"))
    assert shop.status(email.id) is Status.UNKNOWN
    resolved = shop.database.run(lambda c: resolve(c, shop.database, [email.id], outcome))
    assert resolved == {email.id: Status.SENT}
    assert shop.status(email.id) is Status.SENT
    assert shop.recipients(email.id) == {
        "has-it@x.example": "sent",
        "in-doubt@x.example": outcome.value,
    }
