"""The verbs that a person uses: what they leave in the audit, and in which transaction."""

from __future__ import annotations

from threading import Thread

import pytest
import sqlalchemy as sa

from outbox import InvalidMessage, Status
from outbox.flask_ext.management.privacy import erase
from outbox.store.control import audit, suppression
from tests.support.shop.shell import parsed, runner, stuck
from tests.support.shop.shop import Shop, Shops, addresses

pytestmark = pytest.mark.each_database


def told(shop: Shop) -> list[tuple[str, str, int | None, str]]:
    entries = reversed(shop.outbox.audit())
    return [(one.who, one.action, one.email_id, one.result) for one in entries]


@pytest.mark.long
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
    with monkeypatch.context() as patched:
        patched.setattr(erase, "erase_finished", break_off)
        with pytest.raises(KeyboardInterrupt):
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


@pytest.mark.long
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


def test_a_result_of_any_length_is_kept(shop: Shop) -> None:
    def note(connection: sa.Connection) -> None:
        audit.note(
            connection, shop.database, who="ada", action="x", what={"é": [1]}, result="ü" * 300
        )

    shop.database.run(note)
    (entry,) = shop.outbox.audit()
    assert (entry.result, entry.what) == ("ü" * 200, {"é": [1]})
