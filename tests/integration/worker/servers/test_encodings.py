"""A database that is not in UTF-8: emails are sent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from outbox import Priority
from tests.support.servers.smtp.stateful import StatefulServer
from tests.support.shop.motion import Motion, standing
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.databases("postgresql")

EMAILS = 4


@pytest.fixture(params=[None, "utf8"], ids=["the driver refuses", "the server refuses"])
def shops(database_url: str, request: pytest.FixtureRequest) -> Iterator[Shops]:
    """Opens shops on a database without Cyrillic letters."""
    url = sa.make_url(database_url)
    latin = url.set(database=f"{url.database}_latin")
    if request.param is not None:
        latin = latin.update_query_dict({"client_encoding": request.param})
    made = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with made.connect() as connection:
        create = "CREATE DATABASE {} ENCODING 'LATIN1' TEMPLATE template0"
        connection.execute(sa.text(create.format(latin.database)))
        opened = Shops(url=latin.render_as_string(hide_password=False))
        yield opened
        opened.close()
        connection.execute(sa.text(f"DROP DATABASE {latin.database} WITH (FORCE)"))
    made.dispose()


def open_shop(shops: Shops, server: StatefulServer, **config: object) -> Shop:
    shop = shops.open(MAIL_PORT=server.port, OUTBOX_SLOTS=1, **config)
    for number in range(EMAILS):
        shop.enqueue(f"reader@r{number}.example")
    return shop


def test_its_emails_are_swept_and_sent(shops: Shops) -> None:
    with StatefulServer() as server:
        shop = open_shop(shops, server)
        shop.enqueue(priority=Priority.URGENT)
        Motion(shop=shop).until_empty()
    assert standing(shop) == {("sent", 1, 0, 0): EMAILS + 1}
