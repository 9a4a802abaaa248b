"""How a transaction ends, and how many orders and emails must stand then: as many of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy.orm import Session

Act = Callable[[Session], None]
"""Writes one order, and one email for it."""


class Broken(Exception):
    """What a caller's own code raises."""


@dataclass(frozen=True)
class Outcome:
    """One end of a transaction."""

    name: str
    end: Callable[[Session, Act], None]
    orders: int | None  # that stand afterwards; None: the session's own rules decide


def _commit(session: Session, act: Act) -> None:
    act(session)
    session.commit()


def _roll_back(session: Session, act: Act) -> None:
    act(session)
    session.rollback()


def _commit_behind_a_savepoint(session: Session, act: Act) -> None:
    with session.begin_nested():
        act(session)
    session.commit()


def _roll_back_to_a_savepoint(session: Session, act: Act) -> None:
    nested = session.begin_nested()
    act(session)
    nested.rollback()
    session.commit()


def _go_on_behind_a_savepoint(session: Session, act: Act) -> None:
    nested = session.begin_nested()
    act(session)
    nested.rollback()
    act(session)
    session.commit()


def _roll_back_behind_a_savepoint(session: Session, act: Act) -> None:
    with session.begin_nested():
        act(session)
    session.rollback()


def _roll_back_two_savepoints(session: Session, act: Act) -> None:
    outer = session.begin_nested()
    with session.begin_nested():
        act(session)
    outer.rollback()
    session.commit()


def _fail(session: Session, act: Act) -> None:
    act(session)
    raise Broken


def _forget(session: Session, act: Act) -> None:
    act(session)


OUTCOMES = (
    Outcome("commit", _commit, 1),
    Outcome("rollback", _roll_back, 0),
    Outcome("commit behind a savepoint", _commit_behind_a_savepoint, 1),
    Outcome("rollback to a savepoint", _roll_back_to_a_savepoint, 0),
    Outcome("once more behind a savepoint", _go_on_behind_a_savepoint, 1),
    Outcome("rollback behind a savepoint", _roll_back_behind_a_savepoint, 0),
    Outcome("rollback of two savepoints", _roll_back_two_savepoints, 0),
    Outcome("error", _fail, 0),
    Outcome("no commit", _forget, 0),
)
