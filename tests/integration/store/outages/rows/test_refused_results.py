"""The database refuses the result of one email: the others' results are recorded as they are."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from sqlalchemy.exc import DBAPIError

from outbox import Status
from outbox.smtp import reply_reader
from outbox.store.records import EmailResult
from outbox.worker.batch import todo
from outbox.worker.batch.batch_results import Results
from outbox.worker.batch.watch.server_watch import Watch
from tests.integration.store.locks import PATIENCE, swept
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.schema import refusing
from tests.support.shop.shop import Shop, Shops, addresses, sent
from tests.support.shop.steps.motion import Motion
from tests.support.waiting import wait_until

each_database = pytest.mark.each_database
while_it_works = pytest.mark.databases("postgresql", "mariadb")

SENT, SENDING, PENDING, CLAIMED = Status.SENT, Status.SENDING, Status.PENDING, Status.CLAIMED


def never_sent(email_id: int) -> str:
    return f"OLD.id = {email_id} AND NEW.status = 'sent'"


def crashes(shop: Shop) -> set[int]:
    return {row.crashes for row in shop.rows(shop.tables.email)}


@pytest.mark.matrix
@each_database
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("gives_back", [True, False], ids=["a good end", "an error"])
def test_results_that_were_kept_behind_a_batch_are_recorded(
    shop: Shop, place: int, gives_back: bool
) -> None:
    ids = [shop.enqueue(address).id for address in addresses(5)]
    made = shop.started()
    shop.open(made.token, *ids[:3])
    unrecorded = shop.runtime.unrecorded
    with refusing(shop.engine, "outbox_email", never_sent(ids[place])):
        unrecorded.keep(made.token, [sent(i) for i in ids[:3]], gives_back=gives_back)
        assert unrecorded.wait(PATIENCE)
    expected = [SENT] * 3 + [PENDING if gives_back else CLAIMED] * 2
    expected[place] = SENDING
    assert [shop.status(i) for i in ids] == expected
    assert crashes(shop) == {0}
    shop.rescue()  # nobody knows any more that it was sent
    assert [shop.email_row(i).unknown_count for i in ids] == [int(i == ids[place]) for i in ids]
    assert shop.status(ids[place]) is PENDING
    assert shop.count(shop.tables.lease) == 0


@each_database
def test_a_text_that_is_refused_costs_no_other_result_its_own(shop: Shop) -> None:
    ids = [shop.enqueue(address).id for address in addresses(3)]
    made = shop.started()
    results = Results(shop.runtime, made.token, progress=lambda: None, is_told=lambda: True)
    assert results.record_and_open(ids) == {*ids}
    results.add(sent(ids[0]))
    results.add(_unreadable(sent(ids[1])))
    results.add(sent(ids[2]))
    results.record()
    texts = {row.email_id: row.reply for row in shop.rows(shop.tables.attempt)}
    assert texts == {ids[0]: "queued as 1", ids[1]: "", ids[2]: "queued as 1"}
    assert [shop.status(i) for i in ids] == [SENT] * 3


def _unreadable(result: EmailResult) -> EmailResult:
    """Return the result with a text that no driver can encode."""
    reply = replace(result.outcome.reply, text="queued \ud800")
    return replace(result, outcome=replace(result.outcome, reply=reply))


@pytest.mark.long
@while_it_works
def test_the_rest_of_its_batch_goes_back_at_once(
    shop: Shop, workers: Shops, catcher: Catcher
) -> None:
    ids = [shop.enqueue(address).id for address in addresses(6)]
    motion = swept(workers, catcher, OUTBOX_WINDOW=2, OUTBOX_SLOTS=1)
    with refusing(shop.engine, "outbox_email", never_sent(ids[0])):
        with pytest.raises(DBAPIError):
            motion.work()
        assert [shop.status(i) for i in ids] == [SENDING, SENT] + [PENDING] * 4
        assert crashes(shop) == {0}
        motion.shop.rescue()  # the lease of the email that is left holds the only slot until then
        motion.beat()
        assert [shop.status(i) for i in ids] == [PENDING] + [SENT] * 5
    assert set(catcher.copies().values()) == {1}


@pytest.mark.long
@while_it_works
def test_recipients_that_wait_for_the_next_transaction_go_back_uncharged(
    shop: Shop, workers: Shops, catcher: Catcher
) -> None:
    def reply(address: str) -> str | None:
        is_first = address.startswith("c@") and len(catcher.emails) == 1
        return "452 4.5.3 too many recipients" if is_first else None

    catcher.reply_to_recipient = reply
    bad, several = shop.enqueue("a@x.example").id, shop.enqueue("b@x.example", "c@x.example").id
    motion = swept(workers, catcher, OUTBOX_SLOTS=1)
    with refusing(shop.engine, "outbox_email", never_sent(bad)), pytest.raises(DBAPIError):
        motion.work()
    assert [shop.status(bad), shop.status(several)] == [SENDING, PENDING]
    assert set(shop.recipients(several).values()) == {"sent", "pending"}
    shop.rescue()
    motion.beat()
    assert (shop.status(several), shop.email_row(several).unknown_count) == (SENT, 0)
    assert [mail.recipients for mail in catcher.emails].count(("c@x.example",)) == 1


@pytest.mark.long
@while_it_works
def test_recipients_who_wait_beside_a_refused_result_of_their_own_email_are_in_doubt(
    shop: Shop, workers: Shops, catcher: Catcher
) -> None:
    """Who has the email is not in the table, so it must not go back as unsent."""

    def reply(address: str) -> str | None:
        return "452 4.5.3 too many recipients" if address.startswith("c@") else None

    catcher.reply_to_recipient = reply
    several = shop.enqueue("b@x.example", "c@x.example").id
    motion = swept(workers, catcher, OUTBOX_SLOTS=1)
    refused = refusing(shop.engine, "outbox_recipient", "NEW.status = 'sent'")
    with refused, pytest.raises(DBAPIError):
        motion.work()
    assert shop.status(several) is SENDING
    shop.rescue()
    assert shop.email_row(several).unknown_count == 1


@pytest.fixture
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(todo, "SLOW", 0.5)
    monkeypatch.setattr(reply_reader, "LOOK", 0.1)
    # A double: the slow email gets its reply, however long the test takes to let it go.
    monkeypatch.setattr(Watch, "gives_up", lambda *_: False)


def slow_at(shop: Shop, catcher: Catcher, place: int, *, until: list[Status]) -> None:
    """Have the email at this place be slow until the emails have these statuses."""

    def slowly(address: str) -> None:
        if address == addresses(place + 1)[place]:
            wait_until(lambda: shop.statuses() == until, PATIENCE, f"{until} during the wait")

    catcher.reply_to_recipient = slowly


def work(motion: Motion) -> None:
    with suppress(DBAPIError):
        motion.work()


@pytest.mark.long
@while_it_works
@pytest.mark.usefixtures("_hurry")
def test_the_other_results_are_recorded_while_a_server_is_slow(
    shop: Shop, workers: Shops, catcher: Catcher
) -> None:
    ids = [shop.enqueue(address).id for address in addresses(4)]
    motion = swept(workers, catcher, OUTBOX_WINDOW=3, OUTBOX_SLOTS=1)
    slow_at(shop, catcher, 2, until=[SENDING, SENT, SENDING, PENDING])
    with refusing(shop.engine, "outbox_email", never_sent(ids[0])):
        with pytest.raises(DBAPIError):
            motion.work()
        assert [shop.status(i) for i in ids] == [SENDING, SENT, SENT, PENDING]
    assert set(catcher.copies().values()) == {1}


@pytest.mark.long
@while_it_works
@pytest.mark.usefixtures("_hurry")
def test_the_other_emails_behind_a_slow_one_are_given_back(
    shop: Shop, workers: Shops, catcher: Catcher
) -> None:
    ids = [shop.enqueue(address).id for address in addresses(5)]
    motion = swept(workers, catcher, OUTBOX_WINDOW=3, OUTBOX_SLOTS=1)
    slow_at(shop, catcher, 0, until=[SENDING, SENDING, PENDING, PENDING, PENDING])
    unmoved = f"OLD.id = {ids[1]} AND OLD.status = 'sending' AND NEW.status = 'pending'"
    with refusing(shop.engine, "outbox_email", unmoved):
        work(motion)
    assert shop.status(ids[0]) is SENT
    assert set(catcher.copies().values()) == {1}
