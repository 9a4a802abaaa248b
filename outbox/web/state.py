"""What the extension keeps of one app, and how its sessions are found."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flask import Flask, current_app, has_app_context
from sqlalchemy import Connection
from sqlalchemy.orm import Session, scoped_session

from ..store.transaction import refuse_autocommit
from ..worker.runtime import Runtime

_log = logging.getLogger("outbox")

AnySession = Session | scoped_session[Any]
SessionSource = Callable[[], Session]
"""A `scoped_session`, or any callable that returns the session of the current request."""


@dataclass(kw_only=True)
class State:
    """Stands in `app.extensions["outbox"]`."""

    runtime: Runtime
    source: SessionSource | None
    discarded: int = 0  # mails enqueued in sessions that were closed without a commit

    def session(self, given: AnySession | None = None) -> Session:
        """Return the session to write in: the given one, or the current request's."""
        source = given if given is not None else self.source
        if source is None:
            raise RuntimeError("the outbox knows no session: give session=…")
        return source if isinstance(source, Session) else source()

    def connection(self, session: Session) -> Connection:
        """Return the connection of the session's transaction on the outbox's own bind.

        Raises ConfigurationError for one in autocommit.
        """
        connection = session.connection(bind_arguments={"clause": self.runtime.tables.email})
        refuse_autocommit(connection)
        return connection

    def discard(self, mails: int) -> None:
        """Count and tell mails that nobody committed."""
        self.discarded += mails
        _log.warning("outbox: %d mails were discarded: nobody committed their session", mails)


def state_of(app: Flask | None = None) -> State:
    """Return the state of the current app, or of `app` where none is current."""
    found = current_app if has_app_context() else app
    if found is None or "outbox" not in found.extensions:
        raise RuntimeError("the outbox has no app: call outbox.init_app(app, …) first")
    state: State = found.extensions["outbox"]
    return state
