"""An email is sent if and only if its order stands, wherever in an app both are written."""

from __future__ import annotations

import pytest

from tests.integration.sessions.outcomes import OUTCOMES, Outcome
from tests.integration.sessions.places import PLACES, Place
from tests.integration.sessions.ways import act_of
from tests.support.shop.shop import Shops

pytestmark = pytest.mark.one_database("mariadb")


@pytest.mark.matrix
@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: outcome.name)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_as_many_emails_as_orders(place: Place, outcome: Outcome, shops: Shops) -> None:
    shop, db = shops.open_flask()
    ended = list[str]()

    def body() -> None:
        ended.append(outcome.name)
        outcome.end(db.session(), act_of(shop))

    place.run(shop.app, body)
    assert ended == [outcome.name]
    assert shop.count(shop.tables.email) == shop.count(shop.orders) == outcome.orders
