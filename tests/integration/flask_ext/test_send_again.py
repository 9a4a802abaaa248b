"""Send again: a new message of what is stored, over the route of its own sender."""

from __future__ import annotations

from contextlib import nullcontext
from email import message_from_bytes
from threading import Thread

import flask_mail
import pytest
import sqlalchemy as sa

from outbox import ConfigurationError, InvalidMessage, SentAgain
from outbox.store.report_records import EmailDetails
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops, addresses, message, newsletter

pytestmark = pytest.mark.each_database


def test_send_again_copies_content_recipients_and_options(shop: Shop) -> None:
    with shop.session() as session:
        mail = message("a@x.example", "b@y.example", subject="Grüße")
        email = shop.outbox.enqueue(
            mail, session=session, priority="urgent", tag="t", key="k", envelope_from="r@x.example"
        )
        session.commit()
    made = shop.outbox.send_again(email.id)
    old, new = shop.outbox.get(email.id), shop.outbox.get(made.id)
    assert old
    assert new
    assert (new.priority, new.tag, new.key) == (old.priority, "t", None)
    assert (new.subject, new.envelope_from) == ("Grüße", "r@x.example")
    assert shop.recipients(made.id) == {"a@x.example": "pending", "b@y.example": "pending"}
    assert new.message_id != old.message_id


def test_send_again_does_not_wait_for_whoever_holds_the_email(shop: Shop) -> None:
    email = shop.enqueue()
    made: list[int] = []

    def click() -> None:
        made.append(shop.outbox.send_again(email.id, by="ada", seen=0).id)

    with shop.session() as session:
        assert shop.outbox.cancel(id=email.id, session=session) == 1
        if shop.database.facts.one_writer:
            with pytest.raises(ConfigurationError, match="one writer"):
                click()
        else:
            thread = Thread(target=click, daemon=True)
            thread.start()
            thread.join(20)
            assert made == [email.id + 1]
        session.rollback()
    with pytest.raises(SentAgain) if made else nullcontext():
        click()


@pytest.mark.matrix
@pytest.mark.parametrize("bounces", ["bounces@shop.example", "<>"])
@pytest.mark.parametrize("own", [{}, {"Sender": "team@brand.example"}])
def test_send_again_goes_by_the_messages_own_sender_and_not_by_that_of_bounces(
    shops: Shops, bounces: str, own: dict[str, str]
) -> None:
    shop = shops.open(**BRAND)
    mail = message(**own)
    mail.replace_header("From", "Ümit <desk@shop.example>" if own else "news@brand.example")
    with shop.session() as session:
        old = shop.outbox.enqueue(
            mail, session=session, envelope_from=bounces, auto_submitted=True
        ).id
        session.commit()
    copy_of_it = copied(shop, old)
    assert copy_of_it.message_id.endswith("@brand.example>")
    assert copy_of_it.envelope_from == bounces


def test_send_again_goes_by_flask_mails_author_where_there_is_a_sender_too(shops: Shops) -> None:
    shop = shops.open(**BRAND)
    mail = flask_mail.Message("News", ["a@x.example"], "New ink!", sender="news@brand.example")
    mail.extra_headers = {"Sender": "team@shop.example"}
    with shop.session() as session:
        old = shop.outbox.enqueue(mail, session=session).id
        session.commit()
    assert copied(shop, old).message_id.endswith("@brand.example>")


BRAND = {
    "OUTBOX_SERVERS": [{"name": name, "server": "127.0.0.1"} for name in ("own", "spare")],
    "OUTBOX_ROUTES": [{"name": "brand", "sender_domain": "brand.example", "servers": ["own"]}],
}


def copied(shop: Shop, email_id: int) -> EmailDetails:
    """Send an email again, look that both have the lane of the brand's route; return the copy."""
    made = shop.outbox.get(shop.outbox.send_again(email_id).id)
    lanes = [row.lane for row in shop.rows(shop.tables.email)]
    assert lanes == ["brand", "brand"]
    assert made
    return made


def test_send_again_fills_in_a_newsletter_for_its_reader(shop: Shop) -> None:
    with shop.session() as session:
        shop.outbox.enqueue_many(
            newsletter("Dear {{ name }}"),
            addresses(2),
            fields=lambda address: {"name": address},
            session=session,
        )
        session.commit()
    made = shop.outbox.send_again(2)
    octets = message_from_bytes(shop.outbox.source(made.id) or b"")
    assert octets["To"] == "r00001@readers.example"
    assert "Dear r00001@readers.example" in octets.get_payload()
    assert "Dear r00001@" in runner(shop)("source", 2).output


def test_a_signed_message_is_not_sent_again_as_another(shop: Shop) -> None:
    with shop.session() as session:
        signed = message(**{"DKIM-Signature": "v=1; a=rsa-sha256; h=date; b=x"})
        email = shop.outbox.enqueue(signed, session=session)
        session.commit()
    with pytest.raises(InvalidMessage, match="is signed with DKIM"):
        shop.outbox.send_again(email.id)
    assert "is signed with DKIM" in runner(shop)("send-again", email.id, code=1).output
    assert "no email 99" in runner(shop)("source", 99, code=1).output


def test_a_damaged_content_is_neither_shown_nor_sent_again(shop: Shop) -> None:
    email = shop.enqueue()
    octets = shop.outbox.source(email.id)
    assert octets
    with shop.engine.begin() as connection:
        wrong = octets.replace(b"Thank", b"thank")
        connection.execute(sa.update(shop.tables.content).values(body=wrong))
    assert shop.outbox.source(email.id) is None
    with pytest.raises(InvalidMessage, match="whose content is there"):
        shop.outbox.send_again(email.id)
    assert shop.outbox.source(99) is None
