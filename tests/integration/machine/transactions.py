"""The web's part of the machine: one business transaction that is open for several steps."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from sqlalchemy.orm import Session, SessionTransaction

from outbox.domain.errors import KeyConflict
from tests.integration.machine.model import Mail, Model
from tests.integration.machine.tables import Clock, Tables, wipe
from tests.support.shop.shop import Shop, message

KEYS = st.sampled_from([None, None, None, "key-1", "key-2"])
TAGS = st.sampled_from([None, "news"])
DELAYS = st.sampled_from([None, None, 0.0, 100.0, 1000.0])
LIVES = st.sampled_from([None, None, 200.0, 2000.0])
FEW = st.integers(1, 3)

alone = precondition(lambda machine: machine.session is None)
apart = precondition(lambda machine: machine.session is None or machine.shared)


class Transactions(RuleBasedStateMachine):
    """Enqueue, commit, roll back, and savepoints. A business row goes with each of its parts."""

    shop: Shop

    def __init__(self) -> None:
        super().__init__()
        wipe(self.shop)
        self.model = Model()
        self.clock = Clock(self.shop, self.model)
        # On SQLite an open transaction that has written keeps every other one out, and on MariaDB a
        # locking read may wait for its rows: there it is gone through without a step in between.
        self.shared = self.shop.database.dialect == "postgresql"
        self.session: Session | None = None
        self.savepoints: list[SessionTransaction] = []
        self.frames: list[tuple[dict[int, Mail], set[str]]] = []
        self.customers: set[str] = set()
        self.orders = 0

    def teardown(self) -> None:
        if self.session is not None:
            self.session.close()

    def see(self, tables: Tables) -> None:
        """Look at the tables that a step has left: to read them again would be dear."""

    def _order(self) -> None:
        self.orders += 1
        assert self.session is not None
        self.shop.order(self.session, f"customer-{self.orders}")
        self.frames[-1][1].add(f"customer-{self.orders}")

    def _visible(self) -> list[Mail]:
        emails = list(self.model.emails.values())
        return emails + [mail for frame, _ in self.frames for mail in frame.values()]

    @initialize(count=FEW, hold=st.booleans())
    def stock(self, count: int, hold: bool) -> None:
        self.buy(count, tag=None, life=None, hold=hold)

    @alone
    @rule(count=FEW, tag=TAGS, life=LIVES, hold=st.booleans())
    def buy(self, count: int, tag: str | None, life: float | None, hold: bool) -> None:
        self._begin()
        self._enqueue_some(count, tag=tag, delay=None, life=life, hold=hold)
        self._commit()

    @rule(
        step=st.sampled_from(
            ["enqueue", "enqueue", "key", "key", "savepoint", "release", "back", "commit",
             "commit", "rollback", "close"]
        ),
        count=FEW, key=KEYS, tag=TAGS, delay=DELAYS, life=LIVES, flag=st.booleans(),
    )  # fmt: skip
    def web(
        self,
        step: str,
        count: int,
        key: str | None,
        tag: str | None,
        delay: float | None,
        life: float | None,
        flag: bool,
    ) -> None:
        """The next step of the open transaction; the first one opens it."""
        if self.session is None:
            self._begin()
        if step == "enqueue":
            self._enqueue_some(count, tag=tag, delay=delay, life=life, hold=flag)
        elif step == "key":
            self._enqueue_with_key(key, tag=tag, other=flag)
        elif step == "savepoint":
            self._savepoint()
        elif step == "commit":
            self._commit()
        elif step in ("rollback", "close"):
            self._roll_back(closes=step == "close")
        elif self.savepoints:
            self._leave_savepoint(commits=step == "release")

    def _begin(self) -> None:
        self.session = self.shop.sessions()
        self.frames = [({}, set())]
        self._order()

    def _enqueue_some(
        self, count: int, tag: str | None, delay: float | None, life: float | None, hold: bool
    ) -> None:
        for _ in range(count):
            self._enqueue(None, tag=tag, delay=delay, life=life, hold=hold)

    def _enqueue_with_key(self, key: str | None, tag: str | None, other: bool) -> None:
        first = [mail for mail in self._visible() if key is not None and mail.key == key]
        if not first:
            self._enqueue(key, tag=tag, delay=None, life=None, hold=False)
        elif other:
            with pytest.raises(KeyConflict):
                self.shop.outbox.enqueue(message(text="Other."), session=self.session, key=key)
        else:
            again = self.shop.outbox.enqueue(message(), session=self.session, key=key)
            assert (again.id, again.created) == (first[0].id, False)

    def _enqueue(
        self,
        key: str | None,
        *,
        tag: str | None,
        delay: float | None,
        life: float | None,
        hold: bool,
    ) -> None:
        now = datetime.now(UTC) + timedelta(seconds=self.shop.database.offset)
        due = self.model.now + (delay or 0.0)
        options: dict[str, Any] = {
            "key": key,
            "tag": tag,
            "on_unknown": "hold" if hold else "resend",
        }
        if delay is not None:
            options["send_at"] = now + timedelta(seconds=delay)
        if life is not None:
            options["expires_at"] = now + timedelta(seconds=(delay or 0.0) + life)
        email = self.shop.outbox.enqueue(message(), session=self.session, **options)
        assert email.created
        self.frames[-1][0][email.id] = Mail(
            id=email.id,
            first_due=due,
            due=due,
            expires=None if life is None else due + life,
            key=key,
            tag=tag,
            hold=hold,
        )

    def _savepoint(self) -> None:
        assert self.session is not None
        self.savepoints.append(self.session.begin_nested())
        self.frames.append(({}, set()))
        self._order()

    def _leave_savepoint(self, *, commits: bool) -> None:
        emails, customers = self.frames.pop()
        if commits:
            self.savepoints.pop().commit()
            self.frames[-1][0].update(emails)
            self.frames[-1][1].update(customers)
        else:
            self.savepoints.pop().rollback()

    def _commit(self) -> None:
        assert self.session is not None
        self.session.commit()
        for emails, customers in self.frames:
            self.model.emails.update({i: replace(mail) for i, mail in emails.items()})
            self.customers |= customers
        self._over()

    def _roll_back(self, closes: bool) -> None:
        assert self.session is not None
        if not closes:
            self.session.rollback()
        self._over()

    def _over(self) -> None:
        assert self.session is not None
        self.session.close()
        self.session, self.savepoints, self.frames = None, [], []
