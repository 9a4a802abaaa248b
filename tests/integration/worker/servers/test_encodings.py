"""A database that is not in UTF-8: emails are sent, and no email pays for a server's words."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from outbox import Priority
from tests.support.servers.smtp.stateful import Answer, StatefulServer
from tests.support.shop.shop import Shop, Shops
from tests.support.shop.steps.motion import Motion, standing

pytestmark = pytest.mark.databases("postgresql")

BUSY, BUSY_IN_ASCII = "421 4.3.2 Сервер занят", "?????? ?????"
BLOCKED = "554 5.7.1 Доступ запрещён"
EMAILS = 4
UNTOUCHED = {("pending", 0, 0, 0): EMAILS}


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


@pytest.mark.long
def test_its_emails_are_swept_and_sent(shops: Shops) -> None:
    with StatefulServer() as server:
        shop = open_shop(shops, server)
        shop.enqueue(priority=Priority.URGENT)
        Motion(shop=shop).until_empty()
    assert standing(shop) == {("sent", 1, 0, 0): EMAILS + 1}


@pytest.mark.long
def test_an_outage_that_the_greeting_tells_opens_the_breaker(shops: Shops) -> None:
    with StatefulServer({"CONNECT": BUSY}) as server:
        shop = open_shop(shops, server)
        Motion(shop=shop).beat()
    (row,) = shop.rows(shop.tables.breaker)
    assert (row.state, row.reason) == ("open", f"greeting: 421 {BUSY_IN_ASCII}")
    assert standing(shop) == UNTOUCHED
    assert shop.rows(shop.tables.lease) == []


@pytest.mark.long
def test_an_outage_that_the_replies_to_emails_tell_opens_the_breaker(shops: Shops) -> None:
    answers: dict[str, Answer] = {"MAIL": BUSY}
    answers |= {f"MAIL {number}": BUSY for number in range(2, EMAILS + 1)}
    with StatefulServer(answers) as server:
        shop = open_shop(shops, server)
        Motion(shop=shop).beat()
    (row,) = shop.rows(shop.tables.breaker)
    assert (row.state, row.reason) == ("open", f"mail: 421 {BUSY_IN_ASCII}")
    assert standing(shop) == UNTOUCHED
    assert shop.rows(shop.tables.lease) == []


def test_a_suspicion_is_kept(shops: Shops) -> None:
    """One email alone tells nothing of the server."""
    with StatefulServer({"MAIL": BUSY}) as server:
        shop = shops.open(MAIL_PORT=server.port)
        shop.enqueue()
        Motion(shop=shop).beat()
    (row,) = shop.rows(shop.tables.breaker)
    assert row.reason == f"mail: 421 {BUSY_IN_ASCII}"
    assert standing(shop) == {("pending", 0, 0, 0): 1}


@pytest.mark.long
def test_a_refusal_of_every_email_is_known_again_when_a_probe_meets_it(shops: Shops) -> None:
    refusals: dict[str, Answer] = {"RCPT": BLOCKED}
    # The second email is tried over a new session, too; and two probes follow, of all emails.
    refusals |= {f"RCPT {number}": BLOCKED for number in range(2, EMAILS + 2 + 2 * EMAILS)}
    with StatefulServer(refusals) as server:
        shop = open_shop(shops, server, OUTBOX_REFUSED_ALIKE=EMAILS)
        motion = Motion(shop=shop)
        motion.beat()
        for _ in range(2):
            assert standing(shop) == UNTOUCHED
            assert shop.rows(shop.tables.breaker)[0].alert
            shop.later(60)
            assert motion.beat() == 1
        assert standing(shop) == UNTOUCHED
        assert not server.unused
        shop.later(300)
        motion.until_empty()
    assert standing(shop) == {("sent", 1, 0, 0): EMAILS}
