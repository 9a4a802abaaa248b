"""What the extension keeps of one app, and how its sessions are found."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import cached_property

from flask import Flask, current_app, has_app_context
from sqlalchemy import Connection, Insert, insert
from sqlalchemy.orm import Session

from ...store.schema.table_names import refuse_moved
from ...store.session.caller_transaction import refuse_autocommit
from ...store.session.same_database import Identity
from ...worker.process.runtime import Runtime
from ..session.source import AnySession, SessionSource, current, one_of

_log = logging.getLogger("outbox")


@dataclass(kw_only=True)
class State:
    """Stands in `app.extensions["outbox"]`."""

    runtime: Runtime
    source: SessionSource | None
    identity: Identity = field(default_factory=Identity)
    discarded: int = 0  # emails enqueued in sessions that were closed without a commit

    def session(self, given: AnySession | None = None) -> Session:
        """Return the session to write in: the given one, or the current request's.

        Raises ConfigurationError for what is no session that somebody could commit.
        """
        if given is not None:
            found: object = given
        elif self.source is None:
            raise RuntimeError("the outbox knows no session: give session=…")
        else:
            found = current(self.source)
        return one_of(found)

    def connection(self, session: Session) -> Connection:
        """Return the connection of the session's transaction on the outbox's own bind.

        Raises ConfigurationError for one in autocommit, to another database, or to other
        schemas of it.
        """
        connection = session.connection(bind_arguments={"clause": self._write})
        runtime = self.runtime
        refuse_autocommit(connection)
        refuse_moved(connection, runtime.tables.email, runtime.database.engine)
        self.identity.refuse_another(connection, runtime.database.engine)
        return connection

    @cached_property
    def _write(self) -> Insert:
        # A statement and not the table: a session that routes is to choose its writer.
        return insert(self.runtime.tables.email)

    def discard(self, emails: int) -> None:
        """Count and tell emails that nobody committed."""
        self.discarded += emails
        _log.warning("outbox: %d emails were discarded: nobody committed their session", emails)


def state_of(app: Flask | None = None) -> State:
    """Return the state of the current app, or of `app` where none is current."""
    found = current_app if has_app_context() else app
    if found is None or "outbox" not in found.extensions:
        raise RuntimeError("the outbox has no app: call outbox.init_app(app, …) first")
    state: State = found.extensions["outbox"]
    return state
