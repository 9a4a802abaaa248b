"""A server that refuses by the session stops no email, and a newsletter goes out in one go."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from functools import partial
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from outbox.domain.delivery.breaker_timing import Cause
from outbox.domain.delivery.transaction import Verdict
from outbox.store.control import circuit_breaker
from outbox.worker.drain import drain
from tests.support.servers.smtp.client import envelope, lease_held
from tests.support.servers.smtp.sessions import PIPELINING, PLAIN, SessionServer, Talk, more_than
from tests.support.shop.shop import Shop, Shops, message
from tests.support.shop.steps.motion import Motion, attempts, halted, standing

pytestmark = pytest.mark.one_database("sqlite")

STALWART = "452 4.4.5 Maximum number of messages per session exceeded."
POSTSCREEN = "450 4.3.2 Service currently unavailable"
MILTER = "451 4.7.1 Service unavailable - try again later"
EACH_WAY = pytest.mark.parametrize("extensions", [PLAIN, PIPELINING], ids=["plain", "pipelining"])
SENT, PUT_OFF, UNTOUCHED = ("sent", 1, 0, 0), ("pending", 1, 0, 0), ("pending", 0, 0, 0)


def open_shop(shops: Shops, server: SessionServer, **config: object) -> Shop:
    return shops.open(MAIL_PORT=server.port, OUTBOX_SLOTS=1, **config)


def enqueue(shop: Shop, count: int, start: int = 0) -> None:
    """Write emails of different contents to different domains."""
    for address in (f"reader@r{number:05}.example" for number in range(start, start + count)):
        with shop.session() as session:
            shop.outbox.enqueue(message(address, subject=address), session=session)
            session.commit()


@pytest.mark.long
@EACH_WAY
@pytest.mark.parametrize(
    ("place", "reply"), [("DATA", STALWART), (".", f"550 {STALWART[10:]}")], ids=["DATA", "dot"]
)
def test_a_limit_on_a_session_stops_and_charges_nobody(
    shops: Shops, place: str, reply: str, extensions: tuple[str, ...]
) -> None:
    with SessionServer({place: reply}, more_than(10), extensions=extensions) as server:
        shop = open_shop(shops, server)
        enqueue(shop, 60)
        Motion(shop=shop).beat()
        assert standing(shop) == {SENT: 60}
        assert (halted(shop), shop.count(shop.tables.breaker)) == (set(), 0)
        assert (server.emails, server.refused) == ([10] * 6, [0])
    assert set(attempts(shop).values()) == {60}
    assert len({to for _, to in server.taken}) == 60


@pytest.mark.parametrize("verb", ["QUIT", "EHLO"])
def test_an_error_between_a_refusal_and_the_next_session_leaves_no_doubt(
    shops: Shops, verb: str
) -> None:
    """The soft time limit comes as Celery's prefork brings it: a signal that raises."""
    with OutOfTime({".": f"550 {STALWART[10:]}"}, more_than(1), at=verb) as server:
        shop = open_shop(shops, server, OUTBOX_ON_UNKNOWN="hold")
        enqueue(shop, 3)
        before = signal.signal(signal.SIGUSR1, raise_out_of_time)
        try:
            with pytest.raises(SoftTimeLimitExceeded):
                Motion(shop=shop).beat()
        finally:
            signal.signal(signal.SIGUSR1, before)
    assert sorted(shop.statuses()) == ["pending", "pending", "sent"]


class OutOfTime(SessionServer):
    """Ends its client's time instead of an answer, once it has refused an email."""

    def __init__(self, *args: Any, at: str) -> None:
        super().__init__(*args)
        self._at = at

    def _reply(self, talk: Talk, verb: str, line: str) -> str:
        if verb == self._at and self.refused:
            client = threading.main_thread().ident
            assert client is not None
            signal.pthread_kill(client, signal.SIGUSR1)
            return "421 the client has ended"
        return super()._reply(talk, verb, line)


def raise_out_of_time(*_: object) -> None:
    raise SoftTimeLimitExceeded


def test_what_one_connection_of_a_process_is_taught_the_others_know(shops: Shops) -> None:
    with SessionServer({"DATA": STALWART}, more_than(2)) as server:
        shop = open_shop(shops, server)
        lend = partial(shop.runtime.connections.lend, shop.runtime.servers[0])
        with lend() as one, lend() as other:
            for connection in (one, other):
                for number in range(4):
                    reader = envelope(f"r@d{number}.example")
                    result = connection.send(reader, b"Subject: x\r\n\r\n", lease_held)
                    assert result.verdict is Verdict.SENT
                connection.close()
    assert (server.emails, server.refused) == ([2] * 4, [0])


def test_a_filter_that_was_restarted_charges_one_email_of_a_kept_session(shops: Shops) -> None:
    with SessionServer({"MAIL": MILTER}) as server:
        shop = open_shop(shops, server)
        motion = Motion(shop=shop)
        for number in range(5):  # one a batch
            enqueue(shop, 1, start=number)
            motion.beat()
            server.refuses = lambda talk: talk.number == 0
        assert standing(shop) == {SENT: 4, PUT_OFF: 1}
    assert server.refused == [0, 0]


@pytest.mark.long
def test_the_probe_of_a_server_that_refuses_everybody_has_a_session_of_its_own(
    shops: Shops,
) -> None:
    """What it refused, it refuses over that session for as long as it is open."""
    with SessionServer({"RCPT": POSTSCREEN}, lambda _: True) as server:
        shop = open_shop(shops, server, OUTBOX_REFUSED_ALIKE=5)
        motion = Motion(shop=shop)
        enqueue(shop, 10)
        motion.beat()
        assert halted(shop) == {shop.runtime.servers[0].name}
        ill = len(server.dialogues)
        assert server.verbs(ill - 1)[-1] == "QUIT", "nor does a batch behind it use that session"
        server.refuses = lambda talk: talk.number < ill
        shop.later(31)
        motion.beat()
        assert halted(shop) == set()
        motion.until_empty()
    assert standing(shop) == {SENT: 10}


def test_nor_has_the_probe_a_session_that_was_kept_since_before(shops: Shops) -> None:
    with SessionServer({"RCPT": POSTSCREEN}, lambda talk: talk.number == 0) as server:
        shop = open_shop(shops, server)
        with shop.runtime.connections.lend(shop.runtime.servers[0]) as kept:
            assert kept.connect() is None
        trip = partial(circuit_breaker.trip, shop.database, shop.runtime.servers[0].name)
        trip(cause=Cause.EMAILS, reason="as another process found")
        shop.later(31)
        enqueue(shop, 1)
        Motion(shop=shop).beat()
        assert (halted(shop), standing(shop)) == (set(), {SENT: 1})


@EACH_WAY
def test_an_email_to_more_than_the_server_offers_to_take_goes_in_parts_and_at_once(
    shops: Shops, extensions: tuple[str, ...]
) -> None:
    refused = {"a": "550 5.1.1 unknown", "b": "550 5.1.1 unknown", "e": "450 4.2.0 later"}
    with SessionServer(
        extensions=(*extensions, "LIMITS RCPTMAX=2"),
        reply_to=lambda address: refused.get(address[0], "250 ok"),
    ) as server:
        shop = open_shop(shops, server)
        shop.runtime.random = lambda: 0.5
        email = shop.enqueue(*(f"{name}@x.example" for name in "abcdef"))
        drain(shop.runtime)
        outcomes = ["failed", "failed", "sent", "sent", "pending", "sent"]
        assert list(shop.recipients(email.id).values()) == outcomes
        refused.clear()
        shop.later(86_400)
        drain(shop.runtime)
        row = shop.email_row(email.id)
        assert (row.status, row.attempts) == ("sent", 2)
    assert Counter(name for _, names in server.taken for name in names).most_common(1)[0][1] == 1
    assert max(line_count(server)) <= 2


def line_count(server: SessionServer) -> list[int]:
    """How many recipients each transaction named."""
    counts = list[int]()
    for dialogue in server.dialogues:
        for line in dialogue.lines:
            if line.startswith("MAIL"):
                counts.append(0)
            elif line.startswith("RCPT"):
                counts[-1] += 1
    return counts


def test_a_blocklist_is_seen_after_as_many_emails_where_they_go_in_parts(shops: Shops) -> None:
    asked: list[str] = []

    def block(address: str) -> str:
        asked.append(address)
        return "554 5.7.1 blocked using zen"

    with SessionServer(extensions=(*PLAIN, "LIMITS RCPTMAX=1"), reply_to=block) as server:
        shop = open_shop(shops, server, OUTBOX_REFUSED_ALIKE=4, OUTBOX_WINDOW=1)
        for number in range(8):
            shop.enqueue(f"a@x{number}.example", f"b@x{number}.example")
        Motion(shop=shop).beat()
        assert halted(shop) == {shop.runtime.servers[0].name}
    assert len({address.partition("@")[2] for address in asked}) == 4
