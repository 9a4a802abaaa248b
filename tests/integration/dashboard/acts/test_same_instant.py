"""Send again and another act on one message by two people in the same instant: only one goes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, get_ident

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient

from outbox import Status
from tests.integration.dashboard.acts.test_stale_pages import form_at, text_of
from tests.integration.dashboard.desk import Desk
from tests.support.shop.shell import stuck

pytestmark = pytest.mark.databases("postgresql", "mariadb")

PATIENCE = 60.0
LAST = "INSERT INTO outbox_audit"
"""The last statement of an act."""
LOCK = "UPDATE outbox_counter"
"""The statement at which the later act waits, if the earlier one has come past it."""


class Person:
    """Somebody who has the page of a message open, in a browser of their own."""

    def __init__(self, desk: Desk, who: str, path: str, act: str) -> None:
        desk.who = who
        self._client: FlaskClient = desk.shop.app.test_client()
        self._action = f"/outbox{path}/{act}"
        page = self._client.get(f"/outbox{path}").text
        self._form = form_at(page, f"{path}/{act}")

    def press(self) -> str:
        """Send the form; return the address of the page to which it leads."""
        return self._client.post(self._action, data=self._form).headers["Location"]

    def told(self, address: str) -> str:
        return text_of(self._client.get(address).text)


@contextmanager
def at_its_end(desk: Desk, earlier: Person) -> Iterator[tuple[Future[str], Event]]:
    """Have an act come up to its last statement, which goes on once the event is set."""
    is_there, may_go, thread, locked = Event(), Event(), set[int](), set[int]()

    @sa.event.listens_for(desk.shop.engine, "before_cursor_execute")
    def stop(_: object, __: object, statement: str, *___: object) -> None:
        if statement.startswith(LAST) and get_ident() in thread:
            is_there.set()
            assert may_go.wait(PATIENCE)
        if statement.startswith(LOCK):
            locked.add(get_ident())
            if get_ident() not in thread and thread <= locked:
                may_go.set()

    def press() -> str:
        thread.add(get_ident())
        return earlier.press()

    with ThreadPoolExecutor(1) as pool:
        pressed = pool.submit(press)
        assert is_there.wait(PATIENCE)
        yield pressed, may_go


def both(desk: Desk, earlier: str, later: str, status: Status = Status.FAILED) -> str:
    """Have ada and bob press these two buttons in the same instant; return what bob is told."""
    path = f"/messages/{stuck(desk.shop, status)}"
    bob, ada = Person(desk, "bob", path, later), Person(desk, "ada", path, earlier)
    with at_its_end(desk, ada) as (pressed, may_go):
        desk.who = "bob"
        address = bob.press()
        may_go.set()
        pressed.result(PATIENCE)
    return bob.told(address)


def test_no_retry_goes_while_another_person_sends_it_again(desk: Desk) -> None:
    told = both(desk, "send-again", "retry")
    assert [one.status for one in desk.shop.outbox.list().emails] == [Status.PENDING, Status.FAILED]
    assert "the message was sent again as a new one since your page was made." in told
    assert "Before you, ada: send again" in told


def test_it_is_not_sent_again_while_another_person_retries_it(desk: Desk) -> None:
    told = both(desk, "retry", "send-again")
    assert [one.status for one in desk.shop.outbox.list().emails] == [Status.PENDING]
    assert "No further message was made. The message has changed since your page was made" in told
    assert "ada: retry (pending)" in told


def test_a_doubt_is_not_resolved_while_another_person_sends_it_again(desk: Desk) -> None:
    told = both(desk, "send-again", "resolve", Status.UNKNOWN)
    assert [one.status for one in desk.shop.outbox.list().emails] == [
        Status.PENDING,
        Status.UNKNOWN,
    ]
    assert "the message was sent again as a new one since your page was made." in told
    assert "Before you, ada: send again" in told


def test_it_is_not_sent_again_while_another_person_says_that_it_arrived(desk: Desk) -> None:
    told = both(desk, "resolve", "send-again", Status.UNKNOWN)
    assert [one.status for one in desk.shop.outbox.list().emails] == [Status.SENT]
    assert "No further message was made. The message has changed since your page was made" in told
    assert "ada: resolve as sent" in told
