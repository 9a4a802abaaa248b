"""Emails that share a large content are all erased, in many steps; others' content stays."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, select
from sqlalchemy.exc import OperationalError, PendingRollbackError

from outbox import Status
from outbox.store.erasure import contents, find
from outbox.store.queries import id_scan
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops, message
from tests.support.shop.steps.purged import bared, removed
from tests.support.shop.watching.traces import traces

pytestmark = pytest.mark.each_database

ADA, BOB = "Ada@customers.example", "bob@customers.example"
SAID = "the number is 271828"


@pytest.fixture
def shop(shops: Shops, catcher: Catcher) -> Shop:
    return shops.open(MAIL_PORT=catcher.port, SECRET_KEY="a secret")


@pytest.fixture(autouse=True)
def one_email_in_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "PAGE", 1)
    monkeypatch.setattr(id_scan, "LOOK", 1)
    monkeypatch.setattr(contents, "_LOOKED_AT", 1)


def write(shop: Shop, *readers: str) -> list[int]:
    """Write an email to each, with one large content, each in a transaction of its own."""
    large = SAID * 5000
    written = []
    for reader in readers:
        with shop.session() as session:
            email = shop.outbox.enqueue(message(reader, text=large), session=session)
            session.commit()
        written.append(email.id)
    assert shop.count(shop.tables.content) == 1
    return written


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("scan", [False, True], ids=["by the lookup", "by a scan"])
def test_finished_emails_of_one_content_are_erased_in_one_call(shop: Shop, scan: bool) -> None:
    write(shop, ADA, ADA.lower(), ADA)
    drain(shop.runtime)
    done = shop.outbox.erase(ADA, scan=scan)
    assert (done.emails, done.cancelled) == (3, 0)
    assert done.is_whole
    assert traces(shop, ADA, SAID) == set()


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("scan", [False, True], ids=["by the lookup", "by a scan"])
def test_so_are_those_that_were_not_sent_yet(shop: Shop, scan: bool) -> None:
    write(shop, ADA, ADA.lower(), ADA)
    done = shop.outbox.erase(ADA, scan=scan)
    assert (done.emails, done.cancelled) == (3, 3)
    assert done.is_whole
    assert traces(shop, ADA, SAID) == set()


@pytest.mark.long
def test_a_content_that_another_persons_finished_email_has_stays_until_that_is_erased(
    shop: Shop,
) -> None:
    *_, theirs = write(shop, ADA, ADA.lower(), ADA.upper(), ADA, BOB)
    drain(shop.runtime)
    assert shop.outbox.erase(ADA).is_whole
    assert traces(shop, ADA) == set()
    assert SAID.encode() in (shop.outbox.source(theirs) or b"")
    assert shop.outbox.erase(BOB).is_whole
    assert traces(shop, BOB, SAID) == set()


def test_a_content_that_another_person_waits_for_stays(shop: Shop, catcher: Catcher) -> None:
    write(shop, ADA, BOB, ADA)
    assert shop.outbox.erase(ADA).is_whole
    drain(shop.runtime)
    assert [mail.recipients for mail in catcher.emails] == [(BOB,)]
    assert SAID.encode() in catcher.emails[0].content


@pytest.mark.long
def test_an_enqueue_does_not_use_a_content_that_was_emptied_since_its_transaction_began(
    shop: Shop, catcher: Catcher
) -> None:
    """On MariaDB the request's plain reads still see the content as it was."""
    write(shop, ADA)
    drain(shop.runtime)
    with shop.session() as session:
        assert session.execute(select(shop.orders)).all() == []
        assert shop.outbox.erase(ADA).is_whole
        shop.outbox.enqueue(message(BOB, text=SAID * 5000), session=session)
        session.commit()
    drain(shop.runtime)
    assert shop.statuses() == [Status.SENT, Status.SENT]
    assert [mail.recipients for mail in catcher.emails] == [(ADA,), (BOB,)]
    assert SAID.encode() in catcher.emails[1].content


@pytest.mark.databases("mariadb")
@pytest.mark.each_driver
@pytest.mark.parametrize("search", [[], ["recipient"]], ids=["not indexed", "indexed"])
def test_a_content_emptied_since_a_strict_snapshot_loses_no_order_unseen(
    shops: Shops, catcher: Catcher, search: list[str]
) -> None:
    """From 11.6.2 on MariaDB rolls back what locks a row that has changed since its snapshot."""
    config = {"MAIL_PORT": catcher.port, "SECRET_KEY": "a secret", "OUTBOX_SEARCH": search}
    strict = {"init_command": "SET SESSION innodb_snapshot_isolation = ON"}
    shop = shops.open_on(create_engine(shops.url, connect_args=strict), **config)
    write(shop, ADA)
    drain(shop.runtime)
    with shop.session() as session:
        shop.order(session, "Ada")
        session.execute(select(shop.orders)).all()  # the snapshot
        assert shop.outbox.erase(ADA, scan=True).is_whole
        with pytest.raises(OperationalError, match="1020"):
            shop.outbox.enqueue(message(BOB, text=SAID * 5000), session=session)
        with pytest.raises(PendingRollbackError):
            shop.order(session, "Bob")
        with pytest.raises(PendingRollbackError):
            session.commit()
        session.rollback()
        shop.order(session, "Cleo")  # the session is usable again
        shop.outbox.enqueue(message(BOB, text=SAID * 5000), session=session)
        session.commit()
    assert [row.customer for row in shop.rows(shop.orders)] == ["Cleo"]
    assert shop.statuses() == [Status.SENT, Status.PENDING]


@pytest.mark.long
def test_emails_to_the_same_two_people_lose_their_content_with_the_last(shop: Shop) -> None:
    for _ in range(2):
        with shop.session() as session:
            mail = message(BOB, ADA, text=SAID * 5000)
            shop.outbox.enqueue(mail, session=session)
            session.commit()
    assert shop.count(shop.tables.content) == 1
    drain(shop.runtime)
    assert shop.outbox.erase(ADA).is_whole
    assert traces(shop, ADA, SAID) == set()


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("erased", [0, 1, 2])
def test_a_content_goes_with_its_last_body_though_one_of_its_people_was_erased(
    shop: Shop, erased: int
) -> None:
    people = [ADA, BOB, "eve@customers.example"]
    ids = write(shop, *people)
    drain(shop.runtime)
    assert shop.outbox.erase(people[erased]).is_whole
    shop.later(86_400)
    assert bared(shop, 3600.0) == 3
    assert bared(shop, 3600.0) == 0, "it is done once"
    assert traces(shop, SAID) == set()
    shop.later(86_400)
    assert removed(shop, 3600.0) == len(ids)
    assert shop.count(shop.tables.content) == 0
