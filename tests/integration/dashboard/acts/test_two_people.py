"""Two people correct one message at the same moment: the later one is told what the other did."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Event

import pytest
import sqlalchemy as sa

from outbox import Status
from outbox.flask_ext.management import corrections
from outbox.store.control import audit
from outbox.store.jobs.changes import Changed, cancel, resolve, retry
from tests.integration.dashboard.desk import Desk
from tests.support.shop.shell import runner, stuck
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.databases("postgresql", "mariadb")

PATIENCE = 60.0
WAIT = re.compile(r"WHERE outbox_email\.id = \S+ ORDER BY outbox_email\.id FOR (NO KEY )?UPDATE$")
"""The statement that waits for the row of one message."""
ACTS: dict[str, tuple[Status, Callable[..., Changed], Status]] = {
    "resolve as sent": (Status.UNKNOWN, partial(resolve, outcome=Status.SENT), Status.SENT),
    "retry": (Status.FAILED, partial(retry, statuses=(Status.FAILED,)), Status.PENDING),
    "cancel": (Status.PENDING, cancel, Status.CANCELLED),
}
"""By act: what the message is before, what ada does, and what the message is then."""


def written(shop: Shop, status: Status) -> int:
    return shop.enqueue().id if status is Status.PENDING else stuck(shop, status)


@contextmanager
def ada(shop: Shop, act: str, email_id: int) -> Iterator[None]:
    """Do ada's act; it is committed behind the block."""
    with shop.database.transaction() as connection:
        done = ACTS[act][1](connection, shop.database, [email_id])
        result = done.statuses[email_id]
        audit.note(
            connection, shop.database, who="ada", action=act, what={}, result=result,
            email_id=email_id,
        )  # fmt: skip
        yield


def beside(shop: Shop, act: str, email_id: int, bobs: Callable[[], str]) -> str:
    """Return what bob is told, whose act waits for ada's."""
    waits = Event()

    @sa.event.listens_for(shop.engine, "before_cursor_execute")
    def note(_: object, __: object, statement: str, *___: object) -> None:
        if WAIT.search(statement):
            waits.set()

    with ThreadPoolExecutor(1) as pool:
        with ada(shop, act, email_id):
            waits.clear()
            told = pool.submit(bobs)
            told.add_done_callback(lambda _: waits.set())
            assert waits.wait(PATIENCE)
        return told.result(PATIENCE)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corrections, "PATIENCE", PATIENCE)


@pytest.mark.parametrize("act", ACTS)
def test_the_page_says_what_the_other_has_done(desk: Desk, act: str) -> None:
    before, _, now = ACTS[act]
    path = f"/messages/{written(desk.shop, before)}"
    desk.who = "bob"
    verb, fields = act.partition(" ")[0], {"outcome": "failed"} if before is Status.UNKNOWN else {}
    post = partial(desk.followed, f"{path}/{verb}", "/pauses", **fields)
    page = beside(desk.shop, act, int(path.rpartition("/")[2]), post)
    assert "Nothing was changed." in page
    assert "came too late" in page
    assert f"the message is {now}" in page
    assert f"Before you, ada: {act} ({now})" in page


def test_the_command_says_which_status_it_is_now(shop: Shop) -> None:
    email_id = stuck(shop, Status.UNKNOWN)
    run = partial(runner(shop), "resolve", email_id, "--as", "failed", code=1)
    told = beside(shop, "resolve as sent", email_id, lambda: run().output)
    assert told == f"email {email_id} is unchanged: is sent\n0 emails are failed\n"


def test_a_row_that_stays_locked_is_passed_over(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a host that has vanished: nobody waits for that."""
    monkeypatch.setattr(corrections, "PATIENCE", 0.01)
    email_id = stuck(desk.shop, Status.FAILED)
    path = f"/messages/{email_id}"
    with desk.shop.session() as session:
        email = desk.shop.tables.email
        session.execute(sa.select(email.c.id).where(email.c.id == email_id).with_for_update())
        page = desk.followed(f"{path}/retry", path)
        session.rollback()
    assert "Another transaction holds the message. Try again in a minute." in page
