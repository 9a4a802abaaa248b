"""Stores an email and takes it back, for `check`: no setting tells of everything that refuses one.

It is written as `enqueue` writes one, into the same tables. No other transaction sees its row, and
a rollback leaves nothing but a gap in the ids.
"""

from __future__ import annotations

import os
import sys
from base64 import encodebytes
from contextlib import suppress
from typing import TYPE_CHECKING

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from ....domain.config.enqueue_options import Options
from ....domain.message.render import RenderedMessage
from ....domain.priority import Priority
from ....store.bounded_waits import SECONDS, bounded
from ....store.connection.drivers import in_memory
from ....store.connection.error_codes import is_lock_timeout, is_transient
from ....store.new_email import NewEmail
from ....store.transitions.enqueue import Writer
from ..failures.database_line import database_line, refused_line
from ..failures.failure import Failure, failure_of
from .codes import Code
from .finding import Finding, error, warn

if TYPE_CHECKING:
    from ....worker.process.runtime import Runtime

_ADDRESS = "check@outbox.invalid"
_OCTETS = 12_000
"""Of the content, before base64: so much, and random, needs pages of its own. On a full disk the
free room of a page may still take a few rows."""

WRITER = 5.0
"""Seconds to wait for another writer of SQLite: then an app's own sessions give up, too, unless
they have another `timeout`. A shorter wait tells nothing, as writers wait for each other always."""


class _TakenBack(Exception):
    """Rolls the transaction back."""


def trial_findings(runtime: Runtime) -> list[Finding]:
    """Return a finding if the database does not take an email now.

    It waits two seconds at most for what others lock, and on SQLite five for another writer. A
    database in memory is not asked: it may be in the midst of the app's own transaction.
    """
    engine = runtime.database.engine
    if in_memory(engine):
        return []
    try:
        _try(runtime)
    except SQLAlchemyError as failure:
        kind = failure_of(failure)
        if isinstance(failure, DBAPIError) and is_lock_timeout(failure):
            return [warn(database_line(runtime.database, failure), Code.TRIAL)]
        is_writer = kind is Failure.WRITER
        if isinstance(failure, DBAPIError) and is_transient(failure) and not is_writer:
            return []
        if kind is Failure.OTHER:
            return [error(refused_line(engine, failure), Code.TRIAL)]
        code = Code.READ_ONLY if kind is Failure.READ_ONLY else Code.TRIAL
        return [error(database_line(runtime.database, failure), code)]
    return []


def _try(runtime: Runtime) -> None:
    database = runtime.database
    with suppress(_TakenBack), database.transaction(WRITER) as connection:
        with bounded(connection, database, SECONDS):
            Writer(
                connection=connection,
                database=database,
                reuse_size=sys.maxsize,  # no stored content is looked for
                indexed=runtime.settings.indexed,
            ).add(_email(runtime))
        raise _TakenBack


def _email(runtime: Runtime) -> NewEmail:
    message = RenderedMessage(
        sender=_ADDRESS,
        recipients=(_ADDRESS,),
        message_id=f"<{os.urandom(16).hex()}@outbox.invalid>",
        headers=b"",
        content=b"Subject: check\r\n\r\n" + encodebytes(os.urandom(_OCTETS)),
    )
    route = runtime.routes.route_of(_ADDRESS, None)
    lane = runtime.lanes.of(route, message.recipients)
    return NewEmail(message, Options(priority=Priority.NORMAL), lane)
