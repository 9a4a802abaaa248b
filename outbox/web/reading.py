"""Whether a session has only read so far: then a mail may be committed without the rest."""

from __future__ import annotations

import re
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from sqlalchemy import Connection, Engine, event
from sqlalchemy.orm import Session, SessionTransactionOrigin

_KEY = "outbox.reading"
_COMMENTS = re.compile(r"\s*(--[^\n]*\n|/\*.*?\*/)", re.DOTALL)
_READS = ("SELECT", "WITH", "VALUES", "TABLE", "SHOW", "SAVEPOINT", "RELEASE SAVEPOINT")
_WRITES = re.compile(r"\b(INSERT|UPDATE|DELETE|MERGE)\b")
_LOCKS = ("FOR UPDATE", "FOR SHARE", "FOR NO KEY UPDATE", "FOR KEY SHARE", "IN SHARE MODE")

_wrote: WeakKeyDictionary[Connection, bool] = WeakKeyDictionary()
"""The connections in a session's transaction, and whether that has done more than read."""

_heard: WeakSet[Engine] = WeakSet()
"""The engines whose statements are listened to: those of sessions. A worker's statements have no
session, and a listener would cost each of them a tenth of its time."""


def holds_nothing(session: Session) -> bool:
    """Return whether a commit now would commit nothing of anybody, and release no lock.

    A transaction that the caller began is the caller's to commit.
    """
    if session.new or session.deleted or any(map(session.is_modified, session.dirty)):
        return False
    transaction = session.get_transaction()
    if transaction is None:
        return True
    if transaction.origin is not SessionTransactionOrigin.AUTOBEGIN:
        return False
    return not any(_wrote.get(each, True) for each in session.info.get(_KEY, ()))


def _note(connection: Connection, _cursor: Any, statement: str, *_: Any) -> None:
    # A connection that is in no session is not known here: for its statements this is one look.
    if _wrote.get(connection, True):
        return
    if not _reads(statement):
        _wrote[connection] = True


def _reads(statement: str) -> bool:
    """Return whether a statement surely writes nothing and locks nothing."""
    text = statement.upper()
    while comment := _COMMENTS.match(text):
        text = text[comment.end() :]
    text = text.lstrip().removeprefix("(")
    if text == "BEGIN":  # ours, before a savepoint on SQLite
        return True
    if not text.startswith(_READS) or any(lock in text for lock in _LOCKS):
        return False
    return not (text.startswith("WITH") and _WRITES.search(text))


def _after_begin(session: Session, _: Any, connection: Connection) -> None:
    if connection.engine not in _heard:
        _heard.add(connection.engine)
        event.listen(connection.engine, "before_cursor_execute", _note)
    # Also fired for a savepoint, and for a second session on the connection: neither makes what was
    # written before a read.
    _wrote.setdefault(connection, False)
    session.info.setdefault(_KEY, []).append(connection)


def _after_transaction_end(session: Session, transaction: Any) -> None:
    if transaction.parent is None:
        for connection in session.info.pop(_KEY, ()):
            _wrote.pop(connection, None)


def _listen() -> None:
    event.listen(Session, "after_begin", _after_begin)
    event.listen(Session, "after_transaction_end", _after_transaction_end)


_listen()
