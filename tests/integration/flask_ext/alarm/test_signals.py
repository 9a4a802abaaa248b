"""Signals of emails that were sent, have failed, or are in doubt: told once they are recorded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from outbox import Status
from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.status import ARROWS
from outbox.domain.delivery.transaction import Reply, Verdict
from outbox.store.connection import endings
from outbox.store.connection.endings import TOLD
from outbox.store.transitions.expire import expire
from outbox.store.transitions.window import advance_in_steps
from outbox.worker.drain import drain
from tests.integration.hearing import Heard, Told, hearing
from tests.integration.store.transitions.test_lifecycle import WAYS, Step, part
from tests.support.servers.smtp.catcher import Catcher
from tests.support.servers.smtp.scripted import close
from tests.support.servers.smtp.stateful import Answer, StatefulServer
from tests.support.shop.schema import refusing
from tests.support.shop.shell import runner, stuck
from tests.support.shop.shop import START, WORKER, Shop, Shops, entry, sent

pytestmark = pytest.mark.one_database("postgresql")


@pytest.fixture
def heard() -> Iterator[Heard]:
    """What the signals tell."""
    with hearing() as found:
        yield found


def test_a_worker_tells_of_each_window_once_and_names_the_app(
    shops: Shops, catcher: Catcher, heard: Heard
) -> None:
    shop = shops.open(MAIL_PORT=catcher.port, OUTBOX_WINDOW=2)
    ids = [shop.enqueue().id for _ in range(5)]
    assert drain(shop.runtime) == 5
    assert heard.senders == {shop.app}
    calls = heard.new()
    assert {status for status, _ in calls} == {Status.SENT}
    assert sorted(email_id for _, told in calls for email_id in told) == ids
    assert [len(told) for _, told in calls] == [2, 2, 1]


def test_a_worker_tells_what_a_server_refused_and_what_it_did_not_answer(
    shops: Shops, heard: Heard
) -> None:
    answers: dict[str, Answer] = {"RCPT 2": "550 5.1.1 no such user", ". 2": close}
    with StatefulServer(answers) as server:
        shop = shops.open(MAIL_PORT=server.port)
        taken, refused, doubtful = (
            shop.enqueue(f"{name}@x.example", on_unknown="hold").id for name in "abc"
        )
        drain(shop.runtime)
    ends = {taken: Status.SENT, refused: Status.FAILED, doubtful: Status.UNKNOWN}
    assert {email_id: shop.status(email_id) for email_id in ends} == ends
    told = [(status, email_id) for status, ids in heard.new() for email_id in ids]
    assert sorted(told) == sorted((status, email_id) for email_id, status in ends.items())


@pytest.mark.parametrize(
    ("arrow", "way"),
    [
        pytest.param(arrow, way, id=f"{arrow[0]}-{arrow[1]}-{number}")
        for arrow, ways in WAYS.items()
        for number, way in enumerate(ways)
        if arrow[1] in TOLD
    ],
)
def test_each_step_to_such_an_end_is_told_and_no_other(
    shop: Shop, heard: Heard, arrow: tuple[Status, Status], way: tuple[Step, ...]
) -> None:
    to = ("a@x.example", "b@x.example") if part in way else ("a@x.example",)
    shop.enqueue(priority="bulk")
    email = shop.enqueue(*to, expires_at=START.replace(year=2400))
    _expire_in(shop, email.id, 900)
    for step in way:
        before = shop.status(email.id)
        step(shop, email.id)
        now = shop.status(email.id)
        is_end = now is not before and now in TOLD
        assert heard.new() == ([(now, (email.id,))] if is_end else [])
    assert (before, now) == arrow


def _expire_in(shop: Shop, email_id: int, seconds: float) -> None:
    email = shop.tables.email
    with shop.engine.begin() as connection:
        moment = {"expires_at": shop.database.now(seconds)}
        connection.execute(email.update().where(email.c.id == email_id).values(**moment))


def test_the_ways_above_are_all_that_lead_to_such_an_end() -> None:
    arrows = {(arrow.source, arrow.target) for arrow in ARROWS if arrow.target in TOLD}
    assert arrows == {arrow for arrow in WAYS if arrow[1] in TOLD}


def test_a_person_who_resolves_is_told_by_the_api_and_by_the_shell(
    shop: Shop, heard: Heard
) -> None:
    first, second, third = (stuck(shop, Status.UNKNOWN) for _ in range(3))
    assert heard.new() == [(Status.UNKNOWN, (i,)) for i in (first, second, third)]
    shop.outbox.resolve([second, first], Status.SENT)
    assert heard.new() == [(Status.SENT, (first, second))]
    runner(shop)("resolve", third, "--as", "failed")
    assert heard.new() == [(Status.FAILED, (third,))]
    shop.outbox.resolve([first, third], Status.SENT)
    assert heard.new() == []
    shop.outbox.retry(third)
    assert heard.new() == []


def test_a_cancel_tells_of_the_doubt_after_the_commit_of_its_session(
    shop: Shop, heard: Heard
) -> None:
    email = shop.enqueue()
    shop.lose(email.id)
    assert heard.new() == []  # to be sent again
    with shop.session() as session:
        shop.outbox.cancel(id=email.id, session=session)
        session.rollback()
        with session.begin_nested() as savepoint:
            shop.outbox.cancel(id=email.id, session=session)
            savepoint.rollback()
        shop.order(session)
        session.commit()
        assert heard.new() == []
        with session.begin_nested():
            assert shop.outbox.cancel(id=email.id, session=session) == 0
        assert heard.new() == []
        session.commit()
        assert heard.new() == [(Status.UNKNOWN, (email.id,))]
        session.commit()
    assert heard.new() == []


def test_a_cancel_in_a_session_that_is_closed_tells_nobody(shop: Shop, heard: Heard) -> None:
    email = shop.enqueue()
    shop.lose(email.id)
    with shop.session() as session:
        shop.outbox.cancel(id=email.id, session=session)
    with shop.session() as session, session.begin_nested():
        shop.outbox.cancel(id=email.id, session=session)
    assert (shop.status(email.id), heard.new()) == (Status.PENDING, [])
    runner(shop)("cancel", "--id", email.id, code=1)
    assert heard.new() == [(Status.UNKNOWN, (email.id,))]


def test_a_stale_worker_and_a_record_that_is_made_again_tell_nothing(
    shop: Shop, heard: Heard
) -> None:
    email = shop.enqueue()
    stale = shop.lose(email.id)
    fresh = shop.sending(email.id)
    shop.record(stale.token, [sent(email.id)])
    assert (shop.status(email.id), heard.new()) == (Status.SENDING, [])
    for told in ([(Status.SENT, (email.id,))], []):
        shop.record(fresh.token, [sent(email.id)])
        assert heard.new() == told


@pytest.mark.parametrize("steps", [False, True], ids=["as usual", "in steps"])
def test_one_window_tells_each_status_by_itself(shop: Shop, heard: Heard, steps: bool) -> None:
    ids = [shop.enqueue().id for _ in range(6)]
    made = shop.started()
    shop.open(made.token, *ids)
    fail, later = (
        Outcome(status=status, reply=Reply(code=code), attempts_added=1, delay=delay)
        for status, code, delay in ((Status.FAILED, 550, 0.0), (Status.PENDING, 450, 30.0))
    )
    results = [
        *map(sent, ids[:3]),
        *(entry(email_id, fail, Verdict.FAIL) for email_id in ids[3:5]),
        entry(ids[5], later, Verdict.RETRY),
    ]
    if steps:
        advance_in_steps(shop.database, made.token, results, [], worker=WORKER)
    else:
        shop.record(made.token, results)
    expected: list[Told] = [(Status.SENT, tuple(ids[:3])), (Status.FAILED, tuple(ids[3:5]))]
    assert sorted(heard.new()) == sorted(expected)


def test_what_a_savepoint_took_back_is_told_by_nobody(shop: Shop, heard: Heard) -> None:
    """A row that the database refuses has the others ended again, each half by itself."""
    far = START.replace(year=2400)
    doubtful = [shop.enqueue(expires_at=far).id for _ in range(4)]
    made = shop.started()
    shop.open(made.token, *doubtful)
    assert shop.rescue() == 1
    shop.later(86_400)
    faulty = shop.enqueue(expires_at=far).id
    for email_id in (*doubtful, faulty):
        _expire_in(shop, email_id, -1.0)
    with refusing(shop.engine, "outbox_email", f"OLD.id = {faulty}"):
        assert expire(shop.database) == len(doubtful)
    assert heard.new() == [(Status.UNKNOWN, tuple(doubtful))]


def test_nothing_is_noted_any_more_once_nobody_listens(shop: Shop) -> None:
    with hearing():
        stuck(shop, Status.UNKNOWN)
    with shop.database.transaction() as connection:
        assert endings._KEY not in connection.info
