"""More recipients than the server takes: several transactions, and nobody gets a second copy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from outbox.store.transitions import resolve
from outbox.worker.batch.send_batch import send_batch
from outbox.worker.drain import drain
from tests.support.servers.smtp.dialogue import Dialogue
from tests.support.servers.smtp.stateful import EXTENSIONS, Answer, StatefulServer, hang_up
from tests.support.shop.shop import LEASE, Shop, Shops, addresses, message
from tests.support.shop.steps.raising import raise_when

pytestmark = pytest.mark.one_database("postgresql")

DAY = 86_400.0
PIPELINING = pytest.mark.parametrize("pipelining", [False, True], ids=["plain", "pipelining"])
READERS = addresses(250)


def server(
    answers: Mapping[str, Answer] | None = None, *, most: int = 100, pipelining: bool = False
) -> StatefulServer:
    """Return a server that takes so many recipients in one transaction."""
    more = ("PIPELINING",) if pipelining else ()
    return StatefulServer(answers, most=most, extensions=(*EXTENSIONS, *more))


def open_shop(shops: Shops, server: StatefulServer, **config: object) -> Shop:
    shop = shops.open(MAIL_PORT=server.port, **config)
    shop.runtime.random = lambda: 0.5
    return shop


def outcomes(shop: Shop, email_id: int) -> Counter[str]:
    return Counter(shop.recipients(email_id).values())


def taken(server: StatefulServer) -> list[tuple[str, ...]]:
    """Return whom each accepted transaction was for."""
    return [mail.recipients for mail in server.accepted]


@pytest.mark.long
@PIPELINING
def test_250_recipients_go_to_a_server_of_100_in_three_transactions_each_committed_before_the_next(
    shops: Shops, pipelining: bool
) -> None:
    stood: list[Counter[str]] = []

    def look(_: Dialogue) -> None:
        stood.append(outcomes(shop, email.id))

    parts: dict[str, Answer] = {"BODY": look, "BODY 2": look, "BODY 3": look}
    with server(parts, pipelining=pipelining) as smtp:
        shop = open_shop(shops, smtp)
        email = shop.enqueue(*READERS)
        drain(shop.runtime)
    assert taken(smtp) == [tuple(READERS[:100]), tuple(READERS[100:200]), tuple(READERS[200:])]
    assert len({mail.content for mail in smtp.accepted}) == 1
    assert stood == [
        Counter(pending=250),
        Counter(sent=100, pending=150),
        Counter(sent=200, pending=50),
    ]
    row = shop.email_row(email.id)
    assert (row.status, row.attempts, row.crashes, row.unknown_count) == ("sent", 1, 0, 0)
    assert outcomes(shop, email.id) == Counter(sent=250)
    log = shop.rows(shop.tables.attempt)
    assert [(entry.verdict, entry.code) for entry in log] == [("sent", 250)] * 3


@pytest.mark.long
@pytest.mark.matrix
@PIPELINING
@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("answers", "counters", "left"),
    [
        ({"DATA 2": hang_up}, (0, 0, 0), Counter(sent=100, pending=150)),
        ({"DATA 2": "421 4.3.2 closing"}, (0, 0, 0), Counter(sent=100, pending=150)),
        ({"DATA 2": "451 4.3.0 later"}, (1, 0, 0), Counter(sent=100, pending=150)),
        ({". 2": "451 4.3.0 later"}, (1, 0, 0), Counter(sent=100, pending=150)),
        ({". 2": hang_up}, (1, 0, 1), Counter(sent=100, unknown=100, pending=50)),
    ],
    ids=["lost", "halted", "refused", "refused at the dot", "in doubt"],
)
def test_what_befalls_the_second_transaction_concerns_nobody_of_the_first(
    shops: Shops,
    pipelining: bool,
    answers: dict[str, Answer],
    counters: tuple[int, int, int],
    left: Counter[str],
) -> None:
    with server(answers, pipelining=pipelining) as smtp:
        shop = open_shop(shops, smtp)
        email = shop.enqueue(*READERS)
        drain(shop.runtime)
        row = shop.email_row(email.id)
        assert (row.status, row.token) == ("pending", None)
        assert (row.attempts, row.crashes, row.unknown_count) == counters
        assert outcomes(shop, email.id) == left
        shop.later(DAY)
        drain(shop.runtime)
    assert set(smtp.copies().values()) == {1}
    assert len(smtp.copies()) == 250
    assert shop.email_row(email.id).status == "sent"
    assert outcomes(shop, email.id) == Counter(sent=250)


@pytest.mark.long
@pytest.mark.parametrize("error", [SystemExit, MemoryError])
def test_nobody_gets_two_copies_when_the_worker_dies_between_two_transactions(
    shops: Shops, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    with server() as smtp, monkeypatch.context() as patch:
        shop = open_shop(shops, smtp)
        email = shop.enqueue(*READERS)
        raise_when(patch, lambda _: bool(smtp.accepted), error)
        [made] = shop.claim()
        with pytest.raises(error):
            send_batch(shop.runtime, made.token)
        patch.undo()
        row = shop.email_row(email.id)
        assert (row.status, row.unknown_count) == ("pending", 0), "the rest never left"
        assert outcomes(shop, email.id) == Counter(sent=100, pending=150)
        shop.later(DAY + LEASE)
        drain(shop.runtime)
    assert set(smtp.copies().values()) == {1}
    assert len(smtp.copies()) == 250
    assert shop.email_row(email.id).status == "sent"
    assert outcomes(shop, email.id) == Counter(sent=250)


def test_a_time_that_the_server_named_to_one_recipient_holds_though_others_went_on(
    shops: Shops,
) -> None:
    """Who was put off in the first transaction is not asked again sooner than the server said."""
    answers: dict[str, Answer] = {"RCPT 2": "450 4.2.0 try again in 300 seconds"}
    with server(answers, most=2) as smtp:
        shop = open_shop(shops, smtp)
        email = shop.enqueue(*(f"{name}@x.example" for name in "abcd"))
        drain(shop.runtime)
        assert taken(smtp) == [("a@x.example", "c@x.example"), ("d@x.example",)]
        assert outcomes(shop, email.id) == Counter(sent=3, pending=1)
        shop.later(299)
        assert drain(shop.runtime) == 0
        shop.later(60)
        drain(shop.runtime)
    assert taken(smtp)[-1] == ("b@x.example",)
    assert shop.email_row(email.id).status == "sent"


@pytest.mark.parametrize("found_out", ["sent", "failed"])
def test_who_was_never_written_to_gets_the_email_once_the_doubt_of_the_others_is_resolved(
    shops: Shops, found_out: str
) -> None:
    """Under `hold` the doubt stops the email; those behind the server's limit are known unsent."""
    with server({".": hang_up}, most=2) as smtp:
        shop = open_shop(shops, smtp, OUTBOX_ON_UNKNOWN="hold")
        email = shop.enqueue(*(f"{name}@x.example" for name in "abc"))
        drain(shop.runtime)
        assert shop.email_row(email.id).status == "unknown"
        assert outcomes(shop, email.id) == Counter(unknown=2, pending=1)
        status = resolve_as(shop, email.id, found_out)
        assert (status, smtp.accepted) == ("pending", [])
        drain(shop.runtime)
    assert taken(smtp) == [("c@x.example",)]
    assert shop.email_row(email.id).status == "sent"
    expected = [found_out, found_out, "sent"]
    assert list(shop.recipients(email.id).values()) == expected


def resolve_as(shop: Shop, email_id: int, outcome: str) -> str:
    status = type(shop.status(email_id))(outcome)
    found = shop.database.run(lambda c: resolve.resolve(c, shop.database, [email_id], status))
    assert found == {email_id: shop.status(email_id)}
    return str(shop.email_row(email_id).status)


NAMES = tuple(f"{name}@x.example" for name in "abc")
ONE_IN_DOUBT: dict[str, Answer] = {"RCPT 2": "450 4.2.0 later", "RCPT 3": "450 4.2.0 later"}


@pytest.mark.matrix
@PIPELINING
@pytest.mark.parametrize(
    ("answers", "last"),
    [({"RCPT 7": "421 4.3.2 try again in 600 seconds"}, "failed"), ({}, "sent")],
    ids=["halted for its lifetime", "taken"],
)
def test_a_doubt_of_one_who_is_refused_now_stays_whatever_becomes_of_the_rest(
    shops: Shops, pipelining: bool, answers: dict[str, Answer], last: str
) -> None:
    begin: dict[str, Answer] = {**ONE_IN_DOUBT, ".": hang_up, "RCPT 4": "550 5.1.1 unknown"}
    with server(begin | answers, most=1, pipelining=pipelining) as smtp:
        shop = open_shop(shops, smtp, OUTBOX_LIFETIME=300.0)
        email = shop.enqueue(*NAMES)
        drain(shop.runtime)
        assert list(shop.recipients(email.id).values()) == ["unknown", "pending", "pending"]
        shop.later(DAY)
        drain(shop.runtime)
    assert not smtp.unused
    assert list(shop.recipients(email.id).values()) == ["unknown", "sent", last]
    row = shop.email_row(email.id)
    assert (row.status, row.unknown_count) == ("unknown", 1)


@PIPELINING
def test_a_doubt_of_one_who_is_suppressed_now_stays_when_the_others_have_the_email(
    shops: Shops, pipelining: bool
) -> None:
    with server({**ONE_IN_DOUBT, ".": hang_up}, most=1, pipelining=pipelining) as smtp:
        shop = open_shop(shops, smtp)
        email = shop.enqueue(*NAMES)
        drain(shop.runtime)
        with shop.app.app_context():
            shop.outbox.suppress(NAMES[0])
        shop.later(DAY)
        drain(shop.runtime)
    assert taken(smtp) == [(NAMES[1],), (NAMES[2],)]
    assert list(shop.recipients(email.id).values()) == ["unknown", "sent", "sent"]
    row = shop.email_row(email.id)
    assert (row.status, row.unknown_count) == ("unknown", 1)


def test_messages_to_two_spellings_of_one_name_are_two_recipients_with_outcomes_of_their_own(
    shops: Shops,
) -> None:
    """Local parts know upper and lower case (RFC 5321 §2.4), and databases' collations may not."""
    with server({"RCPT 2": "550 5.1.1 unknown"}) as smtp:
        shop = open_shop(shops, smtp)
        with shop.session() as session:
            mail = message("Ada@x.example", Cc="ada@x.example")
            email = shop.outbox.enqueue(mail, session=session)
            session.commit()
        drain(shop.runtime)
    assert shop.recipients(email.id) == {"Ada@x.example": "sent", "ada@x.example": "failed"}
