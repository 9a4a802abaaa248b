"""The verbs that a person uses: what they leave in the audit, and in which transaction."""

from __future__ import annotations

from contextlib import nullcontext
from email import message_from_bytes
from threading import Thread

import flask_mail
import pytest
import sqlalchemy as sa

from outbox import ConfigurationError, InvalidMessage, SentAgain, Status
from outbox.flask_ext.management.privacy import erase
from outbox.store.control import audit, suppression
from outbox.store.report_records import EmailDetails
from tests.support.shop.shell import parsed, runner, stuck
from tests.support.shop.shop import Shop, Shops, addresses, message, newsletter

pytestmark = pytest.mark.each_database


def told(shop: Shop) -> list[tuple[str, str, int | None, str]]:
    entries = reversed(shop.outbox.audit())
    return [(one.who, one.action, one.email_id, one.result) for one in entries]


def test_each_verb_that_is_told_who_acts_leaves_an_entry(shop: Shop) -> None:
    failed, doubtful = stuck(shop, Status.FAILED), stuck(shop, Status.UNKNOWN)
    waits = shop.enqueue().id
    outbox = shop.outbox
    outbox.retry(failed, by="ada")
    outbox.retry([failed, doubtful], by="ada")
    outbox.resolve(99, "sent", by="ada")
    outbox.cancel_now([waits], by="ada")
    outbox.suppress("a@x.example", by="ada")
    outbox.unsuppress("b@x.example", by="ada")
    outbox.pause(by="ada")
    outbox.resume("bulk", by="ada")
    assert told(shop) == [
        ("ada", "retry", failed, "pending"),
        ("ada", "retry", None, "1 pending, 1 unchanged"),
        ("ada", "resolve as sent", 99, "unchanged: no such email"),
        ("ada", "cancel", waits, "cancelled"),
        ("ada", "suppress", None, "added"),
        ("ada", "unsuppress", None, "unchanged: was not on the list"),
        ("ada", "pause", None, "paused"),
        ("ada", "resume", None, "unchanged: was not paused"),
    ]
    assert outbox.audit()[-2].what == {"ids": [failed, doubtful]}
    assert "@" not in str([one.what for one in outbox.audit()])


def test_a_verb_that_is_not_told_leaves_none(shop: Shop) -> None:
    shop.outbox.suppress("a@x.example")
    shop.outbox.retry([stuck(shop, Status.FAILED)])
    shop.outbox.pause()
    assert shop.outbox.audit() == ()


def test_without_its_entry_an_act_does_not_happen(shop: Shop) -> None:
    failed = stuck(shop, Status.FAILED)
    with pytest.raises(InvalidMessage) as refused:
        shop.outbox.retry(failed, by="x" * 101)
    assert refused.value.field == "by"
    with shop.engine.begin() as connection:
        shop.tables.audit.drop(connection)
    for act in (
        lambda: shop.outbox.retry(failed, by="ada"),
        lambda: shop.outbox.suppress("a@x.example", by="ada"),
        lambda: shop.outbox.pause(by="ada"),
        lambda: shop.outbox.send_again(failed, by="ada"),
    ):
        with pytest.raises(Exception, match=r"outbox_audit|tables"):
            act()
    assert shop.statuses() == [Status.FAILED]
    assert shop.outbox.suppressed() == ()
    assert shop.outbox.paused() == ()


def test_without_its_entry_nobody_is_erased(shops: Shops) -> None:
    shop = shops.open(SECRET_KEY="a secret")
    shop.enqueue("a@x.example")
    shop.outbox.suppress("a@x.example")
    with shop.engine.begin() as connection:
        shop.tables.audit.drop(connection)
    with pytest.raises(Exception, match=r"outbox_audit|tables"):
        shop.outbox.erase("a@x.example", by="ada")
    assert shop.statuses() == [Status.PENDING]
    assert shop.count(shop.tables.erased) == 0
    assert len(shop.outbox.suppressed()) == 1


def test_an_erasure_that_is_broken_off_is_in_the_audit(
    shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_off(*_: object) -> None:
        raise KeyboardInterrupt

    shop = shops.open(SECRET_KEY="a secret")
    shop.enqueue("a@x.example")
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(erase, "erase_finished", break_off)
        shop.outbox.erase("a@x.example", by="ada")
    shop.outbox.erase("a@x.example", by="ada")
    assert [result for *_, result in told(shop)] == ["begun", "begun", "1 erased, 0 left"]
    assert "@" not in str([one.what for one in shop.outbox.audit()])


def test_many_emails_are_counted_and_not_listed(shop: Shop) -> None:
    ids = list(range(1, 61))
    shop.outbox.cancel_now(ids, by="ada")
    (entry,) = shop.outbox.audit()
    assert entry.what == {"emails": 60, "first": 1, "last": 60}
    assert entry.result == "60 unchanged"


def test_the_audit_is_read_newest_first_in_pages_and_of_one_email(shop: Shop) -> None:
    failed = stuck(shop, Status.FAILED)
    for who in ("ada", "bob", "eve"):
        shop.outbox.retry(failed, by=who)
        shop.outbox.pause(by=who)
    found = shop.outbox.audit(limit=2)
    assert [one.who for one in found] == ["eve", "eve"]
    assert [one.who for one in shop.outbox.audit(before=found[-1].id)] == ["bob"] * 2 + ["ada"] * 2
    assert [one.who for one in shop.outbox.audit(email=failed)] == ["eve", "bob", "ada"]
    run = runner(shop)
    assert f"eve: retry email {failed}: unchanged: is pending already" in run("audit").output
    assert parsed(run("audit", "--email", failed, "--limit", 1, "--json"))[0]["who"] == "eve"


def test_what_a_person_does_in_the_shell_is_in_the_audit(shop: Shop) -> None:
    run, failed = runner(shop), stuck(shop, Status.FAILED)
    waits = shop.enqueue(tag="news", key="ada@x.example").id
    run("retry", failed)
    run("cancel", "--key", "ada@x.example")
    run("cancel", "--id", waits, code=1)
    run("cancel", "--tag", "news", code=1)
    run("suppress", "a@x.example")
    run("pause", "bulk")
    entries = list(reversed(shop.outbox.audit()))
    assert {one.who.partition(":")[0] for one in entries} == {"shell"}
    assert [(one.action, dict(one.what), one.result) for one in entries] == [
        ("retry", {}, "pending"),
        ("cancel", {"by": "key"}, "cancelled"),
        ("cancel", {}, "unchanged: none was waiting"),
        ("suppress", {"addresses": 1}, "added"),
        ("pause", {"scope": "bulk"}, "paused"),
    ]


def test_many_addresses_are_suppressed_at_once(shop: Shop) -> None:
    shop.outbox.suppress("R00001@readers.example", "left")
    rows = [(address, "") for address in addresses(2500)]
    rows[7] = ("wrong", "")
    done = shop.outbox.suppress_many([*rows, rows[0]], by="ada")
    assert (done.added, done.known, list(done.wrong)) == (2498, 2, [7])
    assert len(shop.outbox.suppressed()) == 2499
    assert shop.outbox.suppressed(address="r00001@readers.EXAMPLE")[0].reason == "left"
    page = shop.outbox.suppressed(after="r00002@readers.example", limit=2)
    assert [one.address[:6] for one in page] == ["r00003", "r00004"]
    assert told(shop) == [("ada", "suppress", None, "2498 added, 1 unchanged")]
    assert shop.outbox.suppress_many([]).added == 0


def test_an_address_that_another_transaction_adds_meanwhile_is_no_error(shop: Shop) -> None:
    """The read has not seen it, and the insert meets it."""
    database = shop.database
    with shop.engine.connect() as other, other.begin() as transaction:
        suppression.suppress(other, database, "b@x.example", "other")
        if database.facts.one_writer:
            transaction.commit()
            added = shop.outbox.suppress_many([("a@x.example", ""), ("b@x.example", "")]).added
        else:
            found: list[int] = []

            def add() -> None:
                rows = [("a@x.example", ""), ("b@x.example", "")]
                found.append(shop.outbox.suppress_many(rows).added)

            thread = Thread(target=add)
            thread.start()
            thread.join(0.3)
            assert thread.is_alive()  # it waits for the other's end
            transaction.commit()
            thread.join(10)
            (added,) = found
    assert added == 1
    assert len(shop.outbox.suppressed()) == 2


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


def test_a_result_of_any_length_is_kept(shop: Shop) -> None:
    def note(connection: sa.Connection) -> None:
        audit.note(
            connection, shop.database, who="ada", action="x", what={"é": [1]}, result="ü" * 300
        )

    shop.database.run(note)
    (entry,) = shop.outbox.audit()
    assert (entry.result, entry.what) == ("ü" * 200, {"é": [1]})
