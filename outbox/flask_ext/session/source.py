"""Finds the current session, and refuses sources that do not return one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy.orm import Session, scoped_session, sessionmaker

from ...domain.errors import ConfigurationError
from .async_session import AWAIT, is_async

AnySession = Session | scoped_session[Any]
SessionSource = Callable[[], AnySession]
"""A `scoped_session`, or any callable that returns the session of the current request."""

_MAKER = (
    "session=… makes a new session at each call, and nobody would commit it: give"
    " scoped_session(sessionmaker(engine)), or a function that returns the request's session"
)
_ANOTHER = (
    "the session source of init_app returns another session each time: nobody would commit what"
    " is enqueued in it. Give a scoped_session, or a function that returns the request's session"
)
_ASYNC = (
    "init_app takes no asynchronous session: give it to each call, as in"
    " await outbox.enqueue_async(…, session=session)"
)
_SHARED = (
    "session=… of init_app must be a scoped_session, or a function that returns the request's"
    " session, but is a {kind}"
)
_NONE = "session=… must be a sqlalchemy.orm.Session or a scoped_session, but is a {kind}"


def refuse_maker(source: object) -> None:
    """Raise ConfigurationError for a source that makes a session at each call, or needs await.

    Likewise for one session, which all requests would share, and for whatever cannot be called.
    """
    if is_async(source):
        raise ConfigurationError(_ASYNC)
    if isinstance(source, sessionmaker | type):
        raise ConfigurationError(_MAKER)
    if source is not None and not callable(source):
        raise ConfigurationError(_SHARED.format(kind=type(source).__qualname__))


def current(source: SessionSource) -> Session:
    """Return the source's current session.

    Raises ConfigurationError if the source makes a session at each call. It is called twice to find
    out. Nobody would commit such a session, and its emails would be lost.
    """
    found = source()
    if not isinstance(source, scoped_session) and source() is not found:
        raise ConfigurationError(_ANOTHER)
    return one_of(found)


def one_of(found: object) -> Session:
    """Return the session itself; raise ConfigurationError for anything else."""
    session = found() if isinstance(found, scoped_session) else found
    if is_async(session):
        raise ConfigurationError(AWAIT)
    if not isinstance(session, Session):
        raise ConfigurationError(_NONE.format(kind=type(found).__qualname__))
    return session
