"""The lifecycle's table, the statements and the database's constraints say the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import insert, update
from sqlalchemy.exc import DBAPIError

from outbox import Status
from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.status import ARROWS
from outbox.domain.delivery.transaction import Reply, Verdict
from outbox.store.control.passed_over import pass_over
from outbox.store.schema.clock import utc
from outbox.store.transitions.expire import expire
from outbox.store.transitions.release import give_back
from outbox.store.transitions.release import suppress as end_suppressed
from outbox.store.transitions.resolve import resolve
from outbox.store.transitions.retry import retry
from tests.support.shop.shop import Shop, entry, sent

pytestmark = pytest.mark.each_database

Step = Callable[[Shop, int], object]
"""Makes one step of the email with this id."""


def token(shop: Shop, email_id: int) -> Any:
    return shop.email_row(email_id).token


def end(status: Status, **values: object) -> Step:
    """Record that the email in its open window came to this."""

    def step(shop: Shop, email_id: int) -> None:
        outcome = Outcome(status=status, reply=Reply(code=0), attempts_added=1, **values)  # type: ignore[arg-type]
        shop.record(token(shop, email_id), [entry(email_id, outcome, Verdict.RETRY)])

    return step


def claim(shop: Shop, _: int) -> None:
    shop.started()


def claim_beside(shop: Shop, email_id: int) -> None:
    pass_over(shop.database, [email_id + 1000])
    shop.started()


def open_(shop: Shop, email_id: int) -> None:
    shop.open(token(shop, email_id), email_id)


def withdraw(shop: Shop, email_id: int) -> None:
    with shop.session() as session:
        shop.outbox.cancel(id=email_id, session=session)
        session.commit()


def release(shop: Shop, email_id: int) -> None:
    held = token(shop, email_id)
    shop.database.run(lambda c: give_back(c, shop.database, held))


def bar(shop: Shop, email_id: int) -> None:
    held = token(shop, email_id)
    shop.database.run(lambda c: end_suppressed(c, shop.database, held, [email_id]))


def pass_time(shop: Shop, _: int) -> None:
    shop.later(1000)
    expire(shop.database)


def rescue(shop: Shop, _: int) -> None:
    assert shop.rescue() == 1
    shop.later(600)


def part(shop: Shop, email_id: int) -> None:
    """One of two recipients has the email."""
    table = shop.tables.recipient
    with shop.engine.begin() as connection:
        mine = (table.c.email_id == email_id) & (table.c.position == 0)
        connection.execute(update(table).where(mine).values(status="sent"))


def settle(outcome: Status) -> Step:
    return lambda shop, i: shop.database.run(lambda c: resolve(c, shop.database, [i], outcome))


def again(shop: Shop, email_id: int) -> None:
    shop.database.run(lambda c: retry(c, shop.database, [email_id]))


def late(shop: Shop, email_id: int) -> None:
    """The lost worker's 250 comes after all."""
    shop.record(shop.email_row(email_id).unknown_token, [sent(email_id)])


def crashes(shop: Shop, email_id: int) -> None:
    table = shop.tables.email
    with shop.engine.begin() as connection:
        connection.execute(update(table).where(table.c.id == email_id).values(crashes=4))


P, C, S = Status.PENDING, Status.CLAIMED, Status.SENDING
DOUBT: tuple[Step, ...] = (claim, open_, rescue)
UNKNOWN: tuple[Step, ...] = (claim, open_, end(Status.UNKNOWN, unknown_total=1))
FAILED: tuple[Step, ...] = (claim, open_, end(Status.FAILED))

WAYS: dict[tuple[Status, Status], list[tuple[Step, ...]]] = {
    (P, C): [(claim,), (*DOUBT, claim), (claim_beside,)],
    (P, Status.CANCELLED): [(withdraw,)],
    (P, Status.EXPIRED): [(pass_time,)],
    (P, Status.SENT): [(*DOUBT, late), (part, withdraw), (part, pass_time)],
    (P, Status.UNKNOWN): [(*DOUBT, withdraw), (*DOUBT, pass_time)],
    (C, S): [(claim, open_)],
    (C, P): [(claim, release), (claim, rescue)],
    (C, Status.CANCELLED): [(claim, withdraw)],
    (C, Status.EXPIRED): [(claim, lambda shop, _: shop.later(1000), release)],
    (C, Status.SUPPRESSED): [(claim, bar)],
    (C, Status.FAILED): [(crashes, claim, rescue)],
    (C, Status.SENT): [(part, claim, withdraw), (part, claim, bar)],
    (C, Status.UNKNOWN): [(*DOUBT, claim, withdraw), (*DOUBT, claim, bar)],
    (S, Status.SENT): [(claim, open_, end(Status.SENT))],
    (S, P): [(claim, open_, end(P, delay=30.0)), (claim, open_, rescue), (claim, open_, release)],
    (S, C): [(claim, open_, end(C))],
    (S, Status.FAILED): [FAILED],
    (S, Status.UNKNOWN): [UNKNOWN, (crashes, claim, open_, rescue)],
    (Status.UNKNOWN, Status.SENT): [(*UNKNOWN, settle(Status.SENT)), (*DOUBT, withdraw, late)],
    (Status.UNKNOWN, P): [(*UNKNOWN, again)],
    (Status.UNKNOWN, Status.FAILED): [(*UNKNOWN, settle(Status.FAILED))],
    (Status.FAILED, P): [(*FAILED, again)],
}
FILES: dict[Step, str] = {
    claim: "claim",
    claim_beside: "claim_apart",
    open_: "window",
    withdraw: "cancel",
    release: "release",
    bar: "release",
    pass_time: "expire",
    rescue: "rescue",
    late: "late_verdict",
    again: "retry",
}
"""The file that makes a step, by its last one; `end` is `record`, and `settle` is `resolve`."""

ELSEWHERE = {
    (P, C): {"claim_whole"},  # twins/test_claims.py: PostgreSQL alone has it
    (C, Status.FAILED): {"release"},  # test_recipients_outcomes.py
    (C, Status.SENT): {"rescue"},  # test_store_rescue.py
    (C, Status.UNKNOWN): {"rescue"},
    (Status.UNKNOWN, P): {"late_verdict", "resolve"},  # test_store_late.py
    (Status.FAILED, P): {"uncharge"},  # test_store_uncharge.py
}
"""Files that make an arrow in another test."""


def file_of(step: Step) -> str:
    return (
        FILES.get(step)
        or {"end": "record", "settle": "resolve"}[step.__qualname__.partition(".")[0]]
    )


def test_every_arrow_of_the_lifecycle_is_driven_below_by_the_files_that_it_names() -> None:
    named = {(arrow.source, arrow.target): {*arrow.files} for arrow in ARROWS}
    driven = {arrow: {file_of(way[-1]) for way in ways} for arrow, ways in WAYS.items()}
    assert named == {arrow: files | ELSEWHERE.get(arrow, set()) for arrow, files in driven.items()}


@pytest.mark.parametrize(
    ("arrow", "way"),
    [
        pytest.param(arrow, way, id=f"{arrow[0]}-{arrow[1]}-{number}")
        for arrow, ways in WAYS.items()
        for number, way in enumerate(ways)
    ],
)
def test_the_statements_make_every_step_of_the_lifecycle(
    shop: Shop, arrow: tuple[Status, Status], way: tuple[Step, ...]
) -> None:
    several = part in way
    start = utc(shop.email_row(shop.enqueue(priority="bulk").id).created_at)
    to = ("a@x.example", "b@x.example") if several else ("a@x.example",)
    email = shop.enqueue(*to, expires_at=start + timedelta(seconds=900))
    for step in way[:-1]:
        step(shop, email.id)
    before = shop.status(email.id)
    way[-1](shop, email.id)
    assert (before, shop.status(email.id)) == arrow


def _values(status: Status, /, **changes: object) -> dict[str, object]:
    leased, pending = status in (C, S), status is P
    return {
        "status": status,
        "token": "0" * 32 if leased else None,
        "due_at": "now" if pending else None,
        "unknown_count": 0,
    } | changes


ILLEGAL = {
    "no status of ours": _values(Status.SENT, status="gone"),
    "pending without a due time": _values(P, due_at=None),
    "pending with a token": _values(P, token="0" * 32),
    "claimed without a token": _values(C, token=None),
    "sending without a token": _values(S, token=None),
    "claimed with a due time": _values(C, due_at="now"),
    "sending with a due time": _values(S, due_at="now"),
    **{
        f"{status} with a {column}": _values(status, **{column: value})
        for status in Status
        if status not in (P, C, S)
        for column, value in (("due_at", "now"), ("token", "0" * 32))
    },
    **{
        f"{status} in doubt": _values(status, unknown_count=1)
        for status in (Status.FAILED, Status.CANCELLED, Status.EXPIRED, Status.SUPPRESSED)
    },
}


def write(shop: Shop, values: dict[str, object]) -> None:
    email = shop.enqueue()
    table = shop.tables.email
    chosen = dict(values)
    if chosen["token"]:
        chosen["token"] = UUID(str(chosen["token"]))
    if chosen["due_at"]:
        chosen["due_at"] = shop.database.now()
    row = shop.values(email.id)
    with shop.engine.begin() as connection:
        connection.execute(insert(table).values(**{**row, "id": email.id + 1000, **chosen}))


@pytest.mark.parametrize("case", ILLEGAL, ids=lambda case: case.replace(" ", "-"))
def test_the_database_refuses_a_row_that_cannot_be(shop: Shop, case: str) -> None:
    with pytest.raises(DBAPIError):
        write(shop, ILLEGAL[case])
    assert shop.count(shop.tables.email) == 1


@pytest.mark.parametrize("status", list(Status))
def test_the_database_takes_a_row_in_every_status(shop: Shop, status: Status) -> None:
    write(shop, _values(status))
    assert shop.count(shop.tables.email) == 2
