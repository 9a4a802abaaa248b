"""Where the current session comes from, and what is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy.orm import Session, scoped_session, sessionmaker

from ...domain.errors import ConfigurationError

AnySession = Session | scoped_session[Any]
SessionSource = Callable[[], AnySession]
"""A `scoped_session`, or any callable that returns the session of the current request."""

_MAKER = (
    "session=… makes a new session at each call, which nobody would commit: give"
    " scoped_session(sessionmaker(engine)), or a function that returns the request's session"
)
_ANOTHER = (
    "the session source of init_app returns another session each time: nobody would commit what"
    " is enqueued in it. Give a scoped_session, or a function that returns the request's session"
)
_NONE = "session=… must be a sqlalchemy.orm.Session or a scoped_session, and is a {kind}"


def refuse_maker(source: object) -> None:
    """Raise ConfigurationError for what makes a session at each call."""
    if isinstance(source, sessionmaker | type):
        raise ConfigurationError(_MAKER)


def current(source: SessionSource) -> object:
    """Return the session that the source says is the current one.

    It is asked twice: a session that is made at each call is nobody's, and its emails were lost.
    """
    found = source()
    if not isinstance(source, scoped_session) and source() is not found:
        raise ConfigurationError(_ANOTHER)
    return found


def one_of(found: object) -> Session:
    """Return the session itself; raise ConfigurationError where it is none."""
    session = found() if isinstance(found, scoped_session) else found
    if not isinstance(session, Session):
        raise ConfigurationError(_NONE.format(kind=type(found).__qualname__))
    return session
