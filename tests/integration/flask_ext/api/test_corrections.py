"""`Outbox.retry` and `Outbox.resolve`: what was changed, and of each other email why it was not."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from outbox import InvalidMessage, Reason, Status, Unchanged
from outbox.store.connection import list_parts
from tests.integration.store.jobs.work import end
from tests.support.shop.shell import Run, runner, stuck
from tests.support.shop.shop import Shop, sent

pytestmark = pytest.mark.one_database("postgresql")


@pytest.fixture
def run(shop: Shop) -> Run:
    """Runs `flask outbox` with these words."""
    return runner(shop)


def finished(shop: Shop) -> int:
    email = shop.enqueue()
    made = shop.sending(email.id)
    shop.record(made.token, [sent(email.id)])
    return email.id


def test_retry_says_what_it_did_with_each_id(shop: Shop, run: Run) -> None:
    failed, doubtful = stuck(shop, Status.FAILED), stuck(shop, Status.UNKNOWN)
    done = finished(shop)
    claimed = shop.enqueue().id
    shop.started()
    waits = shop.enqueue().id
    found = shop.outbox.retry([failed, done, waits, claimed, 99, doubtful, failed])
    assert found.changed == {failed: Status.PENDING, doubtful: Status.PENDING}
    assert found.unknown == (doubtful,)
    assert found.unchanged == (
        Unchanged(id=done, reason=Reason.STATUS, status=Status.SENT),
        Unchanged(id=waits, reason=Reason.ALREADY, status=Status.PENDING),
        Unchanged(id=claimed, reason=Reason.STATUS, status=Status.CLAIMED),
        Unchanged(id=99, reason=Reason.MISSING),
    )
    assert [str(one) for one in found.unchanged] == [
        "is sent",
        "is pending already",
        "is claimed",
        "no such email",
    ]
    output = run("retry", done, failed, 99, code=1).output
    assert f"email {done} is unchanged: is sent\n" in output
    assert f"email {failed} is unchanged: is pending already\n" in output
    assert "email 99 is unchanged: no such email\n" in output
    assert "0 emails are pending again" in output


def test_retry_takes_one_id_a_generator_and_none_at_all(shop: Shop) -> None:
    ids = [stuck(shop, Status.FAILED) for _ in range(3)]
    assert list(shop.outbox.retry(ids[0]).changed) == ids[:1]
    assert list(shop.outbox.retry(i for i in ids[1:]).changed) == ids[1:]
    found = shop.outbox.retry([])
    assert (found.changed, found.unchanged, found.unknown) == ({}, (), ())


def test_an_id_that_is_given_twice_is_one(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_parts, "PART", 1)
    email_id = stuck(shop, Status.FAILED)
    found = shop.outbox.retry([email_id, email_id])
    assert (found.changed, found.unchanged) == ({email_id: Status.PENDING}, ())


def test_retry_is_committed_when_it_returns(shop: Shop) -> None:
    email_id = stuck(shop, Status.FAILED)
    with shop.session() as session:
        shop.outbox.retry(email_id)
        session.rollback()
    assert shop.status(email_id) is Status.PENDING


@pytest.mark.parametrize("status", [Status.FAILED, "unknown"])
def test_retry_by_status_goes_part_by_part_and_tells_how_far_it_is(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, status: Status | str
) -> None:
    monkeypatch.setattr(list_parts, "PART", 1)
    ids = [stuck(shop, Status(status)) for _ in range(3)]
    other = stuck(shop, Status.UNKNOWN if status == Status.FAILED else Status.FAILED)
    seen: list[tuple[int, int]] = []
    found = shop.outbox.retry(status=status, progress=lambda done, of: seen.append((done, of)))
    assert list(found.changed) == ids[::-1]
    assert seen == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    assert found.unknown == (tuple(ids) if status == Status.UNKNOWN else ())
    assert shop.status(other) is not Status.PENDING


@pytest.mark.databases("postgresql", "mariadb")
def test_retry_by_status_leaves_an_email_that_was_locked_and_came_into_doubt(shop: Shop) -> None:
    failed, doubtful = (stuck(shop, Status.FAILED) for _ in range(2))
    email = shop.tables.email
    holder = shop.engine.connect()
    holder.execute(sa.select(email.c.id).where(email.c.id == doubtful).with_for_update())

    def came_into_doubt(done: int, _of: int) -> None:
        if done:
            holder.rollback()
            shop.outbox.retry(doubtful)
            end(shop, [doubtful], Status.UNKNOWN)

    with holder:
        found = shop.outbox.retry(status="failed", progress=came_into_doubt)
    assert found.changed == {failed: Status.PENDING}
    assert found.unchanged == (Unchanged(id=doubtful, reason=Reason.STATUS, status=Status.UNKNOWN),)


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize("verb", ["retry", "resolve"])
def test_what_another_transaction_holds_is_left_and_told(shop: Shop, run: Run, verb: str) -> None:
    first, second = (stuck(shop, Status.UNKNOWN) for _ in range(2))
    words = [verb, first, second, *(["--as", "failed"] if verb == "resolve" else [])]
    email = shop.tables.email
    with shop.session() as session:
        session.execute(sa.select(email.c.id).where(email.c.id == first).with_for_update())
        found = (
            shop.outbox.retry([first, second])
            if verb == "retry"
            else shop.outbox.resolve([first, second], "failed")
        )
        assert list(found.changed) == [second]
        assert found.locked == (first,)
        assert found.unchanged == (Unchanged(id=first, reason=Reason.LOCKED),)
        output = run(*words, code=1).output
        assert f"email {first} is unchanged: another transaction holds it" in output
        assert f"email {second} is unchanged: is" in output
    run(*words)
    assert shop.status(first) is not Status.UNKNOWN


@pytest.mark.long
def test_resolve_says_what_each_email_has_become(shop: Shop, run: Run) -> None:
    partly = shop.enqueue("has-it@x.example", "in-doubt@x.example", on_unknown="hold").id
    shop.lose(partly)
    goes_on = shop.enqueue("waits@x.example", "in-doubt@x.example", on_unknown="hold").id
    shop.lose(goes_on)
    doubtful, failed = stuck(shop, Status.UNKNOWN), stuck(shop, Status.FAILED)
    recipient = shop.tables.recipient
    with shop.engine.begin() as connection:
        for address, status in (("has-it@x.example", "sent"), ("waits@x.example", "pending")):
            one = recipient.update().where(recipient.c.address == address)
            connection.execute(one.values(status=status))
    found = shop.outbox.resolve([doubtful, failed, partly, goes_on, 99], Status.FAILED)
    assert found.changed == {
        doubtful: Status.FAILED,
        partly: Status.SENT,
        goes_on: Status.PENDING,
    }
    assert found.unchanged == (
        Unchanged(id=failed, reason=Reason.ALREADY, status=Status.FAILED),
        Unchanged(id=99, reason=Reason.MISSING),
    )
    assert {i: shop.status(i) for i in found.changed} == found.changed
    assert "is failed already" in run("resolve", failed, "--as", "failed", code=1).output


def test_the_shell_counts_what_became_otherwise_than_asked(shop: Shop, run: Run) -> None:
    email = shop.enqueue("waits@x.example", "in-doubt@x.example", on_unknown="hold")
    shop.lose(email.id)
    recipient = shop.tables.recipient
    with shop.engine.begin() as connection:
        waits = recipient.update().where(recipient.c.address == "waits@x.example")
        connection.execute(waits.values(status="pending"))
    output = run("resolve", email.id, "--as", "sent").output
    assert "0 emails are sent\n1 email is pending: recipients" in output


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("words", "options", "told"),
    [
        ((), {}, "ids: give either ids or a status"),
        (([1],), {"status": "failed"}, "ids: give either ids or a status"),
        ((), {"status": "sent"}, "status: must be one of failed, unknown"),
        (("17",), {}, "ids: must be an id, or an iterable of ids"),
        ((1.5,), {}, "ids: must be an id, or an iterable of ids"),
        (([1, None],), {}, "id: must be a number from 1 to"),
        (([1, "2"],), {}, "id: must be a number from 1 to"),
        ((0,), {}, "id: must be a number from 1 to"),
    ],
)
def test_retry_names_the_argument_that_is_wrong(
    shop: Shop, words: tuple[object, ...], options: dict[str, str], told: str
) -> None:
    with pytest.raises(InvalidMessage, match=told):
        shop.outbox.retry(*words, **options)  # type: ignore[arg-type]


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("outcome", ["pending", "unknown", "done", None, 1])
def test_resolve_names_the_outcome_that_is_none(shop: Shop, outcome: object) -> None:
    with pytest.raises(InvalidMessage, match="outcome: must be one of sent, failed"):
        shop.outbox.resolve(1, outcome)  # type: ignore[arg-type]
