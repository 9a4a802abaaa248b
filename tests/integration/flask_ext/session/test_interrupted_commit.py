"""A commit that is interrupted, or whose reply is lost, may have worked: nobody says otherwise."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session

from tests.support.shop.shop import Shop, message

pytestmark = pytest.mark.databases("sqlite", "postgresql")

UNKNOWN = "the commit was interrupted, so it is not known whether 1 email exists"


class Stop(BaseException):
    """As gevent's Timeout is."""


class SoftLimit(Exception):
    """As Celery's SoftTimeLimitExceeded is."""


@pytest.fixture
def nudges(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The nudges so far; the app has a Celery app."""
    found: list[int] = []
    monkeypatch.setattr(shop.runtime, "find_celery", object)
    monkeypatch.setattr(shop.runtime.nudge, "wake", lambda *_: found.append(1))
    return found


def interrupt(shop: Shop, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Have the next commit interrupted when the database has taken it."""
    dialect = shop.engine.dialect
    real = dialect.do_commit

    def commit(connection: Any) -> None:
        monkeypatch.setattr(dialect, "do_commit", real)
        real(connection)
        raise error

    monkeypatch.setattr(dialect, "do_commit", commit)


def lines(caplog: pytest.LogCaptureFixture) -> Iterator[str]:
    return (one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING)


@pytest.mark.matrix
@pytest.mark.usefixtures("young_heap")
@pytest.mark.parametrize("error", [Stop(), SoftLimit()])
@pytest.mark.parametrize("end", ["close", "rollback", "drop"])
def test_an_interrupted_commit_is_not_told_as_a_loss(
    shop: Shop,
    nudges: list[int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: BaseException,
    end: str,
) -> None:
    session = Session(shop.engine)
    shop.outbox.enqueue(message(), session=session)
    interrupt(shop, monkeypatch, error)
    with suppress(type(error)):
        session.commit()
    error.__traceback__ = None
    if end == "drop":
        del session
        gc.collect()
    else:
        getattr(session, end)()
    assert (shop.outbox.discarded, shop.count(shop.tables.email), nudges) == (0, 1, [1])
    [line] = [one for one in lines(caplog) if one.startswith("outbox: ")]
    assert UNKNOWN in line


def test_a_withdrawal_whose_commit_was_interrupted_is_told_so(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shop.enqueue(tag="order-1")
    with shop.session() as session:
        assert shop.outbox.cancel(tag="order-1", session=session) == 1
        interrupt(shop, monkeypatch, SoftLimit())
        with pytest.raises(SoftLimit):
            session.commit()
    [line] = lines(caplog)
    assert "not known whether 1 email is withdrawn: look before you repeat the cancel" in line
    assert shop.statuses() == ["cancelled"]


@pytest.mark.databases("postgresql")
def test_a_reply_that_was_lost_leaves_it_unknown(
    shop: Shop, nudges: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    with shop.session() as session:
        shop.outbox.enqueue(message(), session=session)
        backend = session.execute(text("SELECT pg_backend_pid()")).scalar_one()
        with shop.engine.begin() as other:
            other.execute(text(f"SELECT pg_terminate_backend({backend}, 5000)"))
        with pytest.raises(DBAPIError):
            session.commit()
    assert (shop.outbox.discarded, nudges) == (0, [1])
    assert UNKNOWN in caplog.text


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("end", ["close", "rollback"])
def test_a_commit_that_the_database_refused_has_lost_its_emails(
    shop: Shop, nudges: list[int], caplog: pytest.LogCaptureFixture, end: str
) -> None:
    with shop.session() as session:
        session.execute(
            text("CREATE TEMPORARY TABLE once (a int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
        )
        session.execute(text("INSERT INTO once VALUES (1), (1)"))
        shop.outbox.enqueue(message(), session=session)
        with pytest.raises(IntegrityError):
            session.commit()
        getattr(session, end)()
    assert (shop.outbox.discarded, nudges) == (int(end == "close"), [])
    assert "interrupted" not in caplog.text


@pytest.mark.databases("postgresql")
def test_a_second_phase_that_was_interrupted_is_unknown(
    shop: Shop,
    nudges: list[int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    dialect = shop.engine.dialect
    real = dialect.do_commit_twophase

    def commit(*args: Any, **kwargs: Any) -> None:
        real(*args, **kwargs)
        raise SoftLimit

    with Session(shop.engine, twophase=True) as session:
        shop.outbox.enqueue(message(), session=session)
        monkeypatch.setattr(dialect, "do_commit_twophase", commit)
        with pytest.raises(SoftLimit):
            session.commit()
    assert (shop.outbox.discarded, shop.count(shop.tables.email), nudges) == (0, 1, [1])
    assert UNKNOWN in caplog.text


@pytest.mark.parametrize("insert", [True, False])
def test_a_listener_that_raises_after_the_commit_hides_no_email(
    shop: Shop, nudges: list[int], insert: bool
) -> None:
    def fail(_session: Session) -> None:
        raise SoftLimit

    with shop.session() as session:
        shop.outbox.enqueue(message(), session=session)
        event.listen(Session, "after_commit", fail, insert=insert)
        try:
            with pytest.raises(SoftLimit):
                session.commit()
        finally:
            event.remove(Session, "after_commit", fail)
    assert (shop.outbox.discarded, shop.count(shop.tables.email), nudges) == (0, 1, [1])
