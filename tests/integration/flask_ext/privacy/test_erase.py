"""An erased person is in no table any more, gets no email, and costs nobody else an email."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from outbox.domain.config.retention import Retention
from outbox.domain.config.typed_values import DAY
from outbox.domain.search.digests import message_id_digest, recipient_digest
from outbox.flask_ext.management.privacy.erase import Left
from outbox.store.retention.purge import purge
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.encryption import keys
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops, message, newsletter
from tests.support.shop.watching.traces import traces

pytestmark = [pytest.mark.each_database, pytest.mark.matrix]

ADA = "Ada.Lovelace@customers.example"
BOB = "bob@customers.example"
SECRET = {"SECRET_KEY": "a secret of the app"}
SAID = "the number is 271828"


@pytest.fixture(params=["in clear", "encrypted"])
def shop(request: pytest.FixtureRequest, shops: Shops, catcher: Catcher) -> Shop:
    encryption = keys("k1") if request.param == "encrypted" else {}
    return shops.open(MAIL_PORT=catcher.port, **SECRET, **encryption)


def write(shop: Shop, *to: str, text: str = SAID, **options: Any) -> int:
    with shop.session() as session:
        email = shop.outbox.enqueue(message(*to, text=text), session=session, **options)
        session.commit()
    return email.id


def write_to_readers(shop: Shop, *readers: str, text: str = "News!", **options: Any) -> None:
    with shop.session() as session:
        shop.outbox.enqueue_many(newsletter(text), readers, session=session, **options)
        session.commit()


def write_all_kinds(shop: Shop) -> None:
    write(shop, ADA, key=f"welcome-{ADA}", tag=f"to {ADA.lower()}")
    write(shop, f"Ada <{ADA.upper()}>", text=SAID * 5000)
    write(shop, BOB, ADA)
    write(shop, ADA, BOB)
    write_to_readers(shop, ADA, BOB)
    write_to_readers(
        shop, ADA, BOB, text="Dear {{ reader }}", fields=lambda address: {"reader": address}
    )


def test_a_run_with_keys_goes_on_although_one_of_its_readers_was_erased(shop: Shop) -> None:
    def add(*readers: str) -> int:
        with shop.session() as session:
            added = shop.outbox.enqueue_many(
                newsletter(), readers, key=lambda to: f"news-{to[0]}", session=session
            )
            session.commit()
        return added

    assert add(ADA, BOB) == 2
    drain(shop.runtime)
    assert shop.outbox.erase(ADA).is_whole
    assert add(ADA, BOB, "eve@customers.example") == 1
    with shop.session() as session:
        assert not shop.outbox.enqueue(message(ADA), key="news-A", session=session).created


@pytest.mark.long
def test_a_failed_email_of_an_erased_person_cannot_be_retried(shop: Shop, catcher: Catcher) -> None:
    catcher.reply_to_recipient = lambda _: "550 5.1.1 nobody is known here"
    mine = write(shop, ADA)
    write_to_readers(shop, ADA, BOB)
    drain(shop.runtime)
    theirs = shop.outbox.list(recipient=BOB).emails[0].id
    failed = {email.id for email in shop.outbox.list(status="failed")}
    assert failed >= {mine, theirs}

    assert shop.outbox.erase(ADA).is_whole
    done = shop.outbox.retry(sorted(failed))
    assert set(done.changed) == {theirs}
    assert set(done.redacted) == failed - {theirs}


@pytest.mark.long
def test_an_email_whose_body_went_before_is_erased_and_the_empty_content_stays(
    shop: Shop, catcher: Catcher
) -> None:
    for reader in (ADA, BOB):
        write(shop, reader)
    drain(shop.runtime)
    ages = Retention.of_all(DAY)
    assert sum(done.bodies for done in purge(shop.database, ages, body_retention=0.0)) == 2
    before = shop.rows(shop.tables.content)

    assert shop.outbox.erase(ADA).is_whole
    assert traces(shop, ADA) == set()
    assert shop.rows(shop.tables.content) == before
    assert shop.outbox.list(recipient=BOB).emails[0].status == "sent"


def test_after_an_erasure_no_table_has_the_address_or_what_was_said(
    shop: Shop, catcher: Catcher
) -> None:
    refusal = f"550 5.1.1 <{ADA}> is not known here"
    catcher.reply_to_recipient = lambda address: refusal if address == ADA else None
    shop.outbox.suppress("else@x.example")
    write_all_kinds(shop)
    drain(shop.runtime)
    write(shop, ADA)
    shop.outbox.suppress(ADA)
    assert "outbox_attempt.reply" in traces(shop, ADA)

    done = shop.outbox.erase(ADA.lower())
    assert (done.emails, done.cancelled, done.was_suppressed) == (7, 1, True)
    assert done.is_whole
    assert traces(shop, ADA, SAID) == set()
    digests = {row.digest for row in shop.rows(shop.tables.lookup)}
    assert recipient_digest(ADA) not in digests
    assert recipient_digest(BOB) in digests
    assert traces(shop, BOB) >= {"outbox_email.recipient", "outbox_recipient.address"}
    assert [entry.address for entry in shop.outbox.suppressed()] == ["else@x.example"]
    assert shop.outbox.erase(ADA).emails == 0


@pytest.mark.long
def test_others_get_what_they_wait_for_and_the_erased_person_gets_nothing(
    shop: Shop, catcher: Catcher
) -> None:
    write_all_kinds(shop)
    done = shop.outbox.erase(ADA)
    assert done.cancelled == done.emails == 4
    assert set(done.left.values()) == {Left.OTHERS}
    drain(shop.runtime)
    assert {to for mail in catcher.emails for to in mail.recipients} == {BOB}
    assert len(catcher.emails) == 4
    again = shop.outbox.erase(ADA)
    assert again.emails == len(done.left) == 2
    assert again.is_whole
    assert traces(shop, ADA, SAID) == set()


@pytest.mark.long
def test_a_later_import_does_not_mail_an_erased_person_until_readmitted(
    shop: Shop, catcher: Catcher
) -> None:
    write(shop, ADA)
    shop.outbox.erase(ADA)
    late = write(shop, ADA.swapcase())
    partly = write(shop, BOB, ADA)
    detail = shop.outbox.get(late)
    assert detail is not None
    assert "or erased" in detail.waits[0]
    drain(shop.runtime)
    assert shop.status(late) == "suppressed"
    assert shop.recipients(partly) == {BOB: "sent", ADA: "suppressed"}
    assert [mail.recipients for mail in catcher.emails] == [(BOB,)]

    assert shop.outbox.readmit(ADA)
    assert not shop.outbox.readmit(ADA)
    write(shop, ADA)
    drain(shop.runtime)
    assert catcher.emails[-1].recipients == (ADA,)


@pytest.mark.long
def test_what_is_being_sent_or_in_doubt_is_left_and_erased_when_it_has_ended(shop: Shop) -> None:
    sending = write(shop, ADA)
    made = shop.sending(sending)
    assert shop.outbox.erase(ADA).left == {sending: Left.SENDING}
    assert shop.rescue() == 1
    shop.later(86_400)
    done = shop.outbox.erase(ADA)  # it is withdrawn while in doubt, so it is unknown
    assert done.left == {sending: Left.UNKNOWN}
    assert shop.status(sending) == "unknown"
    assert made.emails == 1
    shop.outbox.resolve(sending, "sent")
    assert shop.outbox.erase(ADA).is_whole
    assert traces(shop, ADA, SAID) == set()


@pytest.mark.databases("postgresql", "mariadb")
def test_an_email_that_another_transaction_holds_is_left_and_nobody_waits(shop: Shop) -> None:
    email_id = write(shop, ADA)
    email = shop.tables.email
    with shop.session() as session:
        session.execute(sa.select(email).where(email.c.id == email_id).with_for_update())
        assert shop.outbox.erase(ADA).left == {email_id: Left.LOCKED}
    assert shop.outbox.erase(ADA).emails == 1


def test_a_content_of_one_person_alone_goes_with_the_last_email_that_has_it(shop: Shop) -> None:
    first, second = (write(shop, ADA, text=SAID * 5000) for _ in range(2))
    assert shop.count(shop.tables.content) == 1
    made = shop.started()
    shop.open(made.token, second)
    done = shop.outbox.erase(ADA)
    assert done.left == {first: Left.NEEDED, second: Left.SENDING}
    assert (done.emails, done.cancelled) == (0, 0), "what is left is not counted as erased"
    assert shop.email_row(first).status == "cancelled"


def test_an_erased_email_is_never_sent_even_if_a_person_retries_it(
    shop: Shop, catcher: Catcher
) -> None:
    catcher.reply_to_recipient = lambda _: "550 5.1.1 no such user"
    email_id = write(shop, ADA)
    drain(shop.runtime)
    shop.outbox.erase(ADA)
    catcher.reply_to_recipient = lambda _: None
    shop.outbox.retry(email_id)
    drain(shop.runtime)
    assert shop.status(email_id) == "failed"
    assert not catcher.emails


def test_emails_that_were_never_indexed_are_found_by_a_scan(shops: Shops) -> None:
    write_all_kinds(shops.open(OUTBOX_SEARCH=[], **SECRET))
    shop = shops.open(**SECRET)
    assert shop.outbox.erase(ADA).emails == 0
    assert shop.outbox.erase(ADA, scan=True).emails == 4
    without = shops.open(OUTBOX_SEARCH=[], **SECRET)
    write(without, ADA)
    assert without.outbox.erase(ADA).emails == 1, "without an index it scans by itself"


def test_the_lookup_forgets_a_message_id_in_which_the_address_stands(shop: Shop) -> None:
    ids = {ADA: "<Ada.Lovelace@customers.example>", BOB: "<for.bob@shop.example>"}
    for reader, message_id in ids.items():
        with shop.session() as session:
            mail = message(reader, **{"Message-ID": message_id})
            shop.outbox.enqueue(mail, session=session)
            session.commit()
    assert shop.outbox.erase(ADA).is_whole
    digests = {row.digest for row in shop.rows(shop.tables.lookup)}
    assert digests == {recipient_digest(BOB), message_id_digest(ids[BOB])}


def test_an_international_domain_is_gone_in_both_ways_to_write_it(shop: Shop) -> None:
    who = "ada@bücher.example"
    write(shop, who, key=f"welcome-{who}", tag=f"to {who}")
    runner(shop)("cancel", "--tag", f"to {who}")
    assert [row for row in shop.rows(shop.tables.audit) if who in str(row)]
    assert shop.outbox.erase(who).is_whole
    (email,) = shop.rows(shop.tables.email)
    assert (email.key, email.tag) == (None, None)
    assert not [row for row in shop.rows(shop.tables.audit) if "ada@" in str(row)]
