"""`flask outbox retry`, `resolve` and `cancel`: what a person changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Connection, select

from outbox import Status
from outbox.store.connection import list_parts
from outbox.store.connection.database import Database
from outbox.store.connection.row_locks import Locked
from outbox.store.queries import id_scan
from outbox.store.transitions import retry
from tests.support.shop.shell import Run, runner, stuck
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.one_database("postgresql")


@pytest.fixture
def run(shop: Shop) -> Run:
    """Runs `flask outbox` with these words."""
    return runner(shop)


@pytest.mark.parametrize("status", [Status.FAILED, Status.UNKNOWN])
def test_retry_sends_again_by_id_and_by_status(shop: Shop, run: Run, status: Status) -> None:
    email_id = stuck(shop, status)
    run("retry", code=2)
    run("retry", 1, "--status", "failed", code=2)
    run("retry", 99, code=1)
    assert "1 email is pending" in run("retry", email_id).output
    assert shop.status(email_id) is Status.PENDING
    other = stuck(shop, status)
    run("retry", "--status", status.value)
    assert shop.status(other) is Status.PENDING
    run("retry", "--status", status.value, code=1)


@pytest.mark.long
def test_retry_tells_of_emails_whose_time_is_over(shop: Shop, run: Run) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    first, second = (stuck(shop, Status.FAILED, expires_at=soon) for _ in range(2))
    shop.later(7200)
    output = run("retry", first, code=1).output
    left = f"email {first} is unchanged: is past its expires_at; send it again as a new message\n"
    assert output == f"{left}0 emails are pending again\n"
    output = run("retry", "--status", "failed", code=1).output
    assert "2 emails are unchanged: each is past its expires_at; send-again sends one" in output
    assert "0 emails are pending again" in output
    run("send-again", second)
    assert [shop.status(one) for one in (first, second)] == [Status.FAILED] * 2


@pytest.mark.long
def test_retry_by_status_goes_through_the_emails_in_short_transactions(
    shop: Shop, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_parts, "PART", 2)
    failed = [stuck(shop, Status.FAILED) for _ in range(5)]
    kept = [stuck(shop, Status.UNKNOWN), shop.enqueue().id]
    chosen: list[list[int]] = []
    genuine = retry.retry

    def note(
        connection: Connection, database: Database, ids: list[int], statuses: Collection[Status]
    ) -> Sequence[Locked]:
        chosen.append(ids)
        return genuine(connection, database, ids, statuses)

    monkeypatch.setattr(retry, "retry", note)
    assert "5 emails are pending" in run("retry", "--status", "failed").output
    assert chosen == [failed[3:], failed[1:3], failed[:1]]  # an index has the newest first
    assert {shop.status(email_id) for email_id in failed} == {Status.PENDING}
    assert [shop.status(email_id) for email_id in kept] == [Status.UNKNOWN, Status.PENDING]


def test_cancel_by_tag_goes_through_the_tag_in_short_transactions(
    shop: Shop, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_scan, "LOOK", 3)
    monkeypatch.setattr(list_parts, "PART", 2)
    other = [shop.enqueue().id]
    tagged = [shop.enqueue(tag="news").id for _ in range(5)]
    other.append(shop.enqueue(tag="old").id)
    written: list[int] = []
    transaction = shop.database.run

    def note(work: Callable[[Connection], tuple[int, list[int]]]) -> tuple[int, list[int]]:
        changed, held = transaction(work)
        written.append(changed)
        return changed, held

    monkeypatch.setattr(shop.database, "run", note)
    assert "5 emails cancelled" in run("cancel", "--tag", "news").output
    assert written == [2, 1, 2]
    assert {shop.status(email_id) for email_id in tagged} == {Status.CANCELLED}
    assert {shop.status(email_id) for email_id in other} == {Status.PENDING}
    run("cancel", "--tag", "none", code=1)


@pytest.mark.parametrize("by", ["id", "key", "tag"])
def test_cancel_tells_of_an_email_in_doubt_that_ends_unknown(shop: Shop, run: Run, by: str) -> None:
    email_id = stuck(shop, Status.UNKNOWN, tag="news", key="news-1")
    run("retry", email_id)
    given = {"id": str(email_id), "key": "news-1", "tag": "news"}
    output = run("cancel", f"--{by}", given[by], code=1).output
    assert shop.status(email_id) is Status.UNKNOWN
    assert "0 emails cancelled" in output
    assert "1 email is unknown: in doubt before, it may have arrived" in output
    told = {"id": "unknown", "key": "unknown", "tag": "0 cancelled, 1 unknown"}
    assert shop.outbox.audit()[0].result == told[by]
    assert "0 emails cancelled\n" in run("cancel", f"--{by}", given[by], code=1).output


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize("words", [("retry", "--status", "failed"), ("cancel", "--tag", "news")])
def test_an_email_that_another_transaction_holds_keeps_no_other_waiting(
    shop: Shop, run: Run, words: tuple[str, ...]
) -> None:
    """It is told of, and left as it is: in time, or the held row's transaction would never end."""
    make: dict[str, Callable[[], object]] = {
        "retry": lambda: stuck(shop, Status.FAILED),
        "cancel": lambda: shop.enqueue(tag="news"),
    }
    for _ in range(3):
        make[words[0]]()
    email = shop.tables.email
    [first, *_] = (row.id for row in shop.rows(email))
    with shop.session() as session:
        session.execute(select(email.c.id).where(email.c.id == first).with_for_update())
        output = run(*words, code=1).output
        before = shop.status(first)
    assert "1 email is unchanged: another transaction holds it; run this again" in output
    assert "2 emails" in output
    assert [row.status == before for row in shop.rows(email)] == [True, False, False]
    assert "1 email " in run(*words).output


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize("words", [("retry",), ("resolve", "--as", "failed")])
def test_a_script_learns_that_an_email_of_its_list_was_left(
    shop: Shop, run: Run, words: tuple[str, ...]
) -> None:
    first, second = (stuck(shop, Status.UNKNOWN) for _ in range(2))
    email = shop.tables.email
    with shop.session() as session:
        session.execute(select(email.c.id).where(email.c.id == first).with_for_update())
        output = run(*words, first, second, code=1).output
    assert f"email {first} is unchanged: another transaction holds it" in output
    assert "1 email is unchanged: another transaction holds it; run this again" in output
    assert (shop.status(first) is Status.UNKNOWN, shop.status(second) is Status.UNKNOWN) == (
        True,
        False,
    )
    run(*words, first)


def test_resolve_settles_what_is_in_doubt(shop: Shop, run: Run) -> None:
    first, second = stuck(shop, Status.UNKNOWN), stuck(shop, Status.UNKNOWN)
    run("resolve", first, "--as", "sent")
    run("resolve", second, "--as", "failed")
    assert (shop.status(first), shop.status(second)) == (Status.SENT, Status.FAILED)
    run("resolve", first, "--as", "sent", code=1)
    run("resolve", first, code=2)
    run("resolve", first, "--as", "pending", code=2)


def test_cancel_withdraws_by_id_key_or_tag(shop: Shop, run: Run) -> None:
    shop.enqueue(key="k")
    shop.enqueue(tag="t")
    email = shop.enqueue()
    run("cancel", "--key", "k")
    run("cancel", "--tag", "t")
    assert "1 email cancelled" in run("cancel", "--id", email.id).output
    assert {row.status for row in shop.rows(shop.tables.email)} == {"cancelled"}
    run("cancel", "--id", email.id, code=1)
    run("cancel", code=2)
    run("cancel", "--id", 1, "--tag", "t", code=2)
