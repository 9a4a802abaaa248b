"""Tells whether a session has only read so far: then its email may be committed at once."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, ref

from sqlalchemy import Connection, Engine, event
from sqlalchemy.orm import Session, SessionTransaction, SessionTransactionOrigin

from ...store.connection.facts import facts_of
from ...store.session.pending_writes import Mark, may_call
from .first_use import FirstUse, Wanted

_KEY = "outbox.reading"
_BEFORE = "outbox.reading.before"
"""By savepoint: the connections over which its session had written before it."""
_COMMENTS = re.compile(r"\s*(--[^\n]*\n|/\*(?!M?!).*?\*/)", re.DOTALL)
"""Comments, without those that MariaDB and MySQL execute."""
_READS = ("SELECT", "WITH", "VALUES", "TABLE", "SHOW", "SAVEPOINT", "RELEASE SAVEPOINT")
_WRITES = re.compile(r"\b(INSERT|UPDATE|DELETE|MERGE)\b")
_LOCKS = ("FOR UPDATE", "FOR SHARE", "FOR NO KEY UPDATE", "FOR KEY SHARE", "IN SHARE MODE")
_CHANGES = (
    *("INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE", "COPY", "CALL", "DO", "LOAD", "TRUNCATE"),
    *("CREATE", "ALTER", "DROP"),
)
_LASTS = ("PG_NOTIFY", "SET_CONFIG")
"""Functions whose effect begins or ends with the commit; PostgreSQL does not report them."""
_ANOTHER = re.compile(r";\s*\S")

_marks: WeakKeyDictionary[Connection, Mark] = WeakKeyDictionary()
"""The connections in sessions' transactions, each with what is known of it."""

_of_thread = threading.local()
"""The connections in transactions that sessions of a thread began, where only one may write."""


def holds_nothing(session: Session) -> bool:
    """Return whether a commit now would commit no writes, end no open result and free no lock.

    It is False where the caller began a transaction or a savepoint, which is the caller's to
    commit. Otherwise the statements tell, and then the databases; where neither is sure, it is
    False.
    """
    if session.new or session.deleted or any(map(session.is_modified, session.dirty)):
        return False
    transaction = session.get_transaction()
    if transaction is None:
        return True
    if transaction.origin is not SessionTransactionOrigin.AUTOBEGIN:
        return False
    if session.in_nested_transaction():
        return False
    return not any(map(_is_held, session.info.get(_KEY, ())))


def any_has_written(engine: Engine) -> bool:
    """Return whether a session's transaction that this thread began has surely written there.

    Its driver has to tell. The engine's pool counts: an engine may be a copy with other options.
    """
    marks = [_marks.get(each) for each in list(_own()) if each.engine.pool is engine.pool]
    return any(mark.has_written() for mark in marks if mark is not None)


def writers(session: Session) -> set[Connection]:
    """Return the connections in the session's transaction over which anybody has written.

    The outbox's own statements count, too. A connection of which this is not known counts.
    """
    found = session.info.get(_KEY, ())
    return {one for one in found if (mark := _marks.get(one)) is None or mark.wrote}


def mark_of(connection: Connection) -> Mark | None:
    """Return what is known of a connection in a session's transaction."""
    return _marks.get(connection)


def connections(session: Session) -> Sequence[Connection]:
    """Return the connections on which the session's transaction has begun."""
    found: Sequence[Connection] = session.info.get(_KEY, ())
    return found


def begun(session: Session) -> int:
    """Return on how many connections the session's transaction has begun."""
    return len(connections(session))


def _own() -> WeakSet[Connection]:
    try:
        found: WeakSet[Connection] = _of_thread.connections
    except AttributeError:
        found = _of_thread.connections = WeakSet()
    return found


def _is_held(connection: Connection) -> bool:
    mark = _marks.get(connection)
    return mark is None or mark.is_held(connection)


def _before(_cursor: Any, statement: str, *rest: Any) -> None:
    context = rest[-1]  # behind the parameters, where there are any
    # A connection without a session is not in `_marks`: its statements cost this one lookup.
    # Statements without a context are SQLAlchemy's own, such as a sequence's next value.
    mark = None if context is None else _marks.get(context.root_connection)
    if mark is None or mark.had_written:
        return
    if mark.writes is not None:
        # A statement comes twice where it goes in batches, or where two listeners hear it.
        mark.had_written = mark.writes() is not context
        return
    if not mark.is_broken:
        mark.before()
        if not _reads(statement, context.dialect.name):
            mark.is_broken = True
    if mark.is_broken and _writes(statement):
        mark.wrote, mark.writes = True, ref(context)


def _before_on(
    _connection: Connection, cursor: Any, statement: str, _parameters: Any, context: Any, _: bool
) -> None:
    _before(cursor, statement, context)


def _after(connection: Connection, *_: Any) -> None:
    mark = _marks.get(connection)
    if mark is not None and not mark.is_broken:
        mark.after()


@lru_cache(maxsize=500)
def _reads(statement: str, dialect: str) -> bool:
    """Return whether a statement only reads, as far as its words tell."""
    text = _bare(statement)
    if text == "BEGIN":  # ours, before a savepoint on SQLite
        return True
    if not text.startswith(_READS) or any(word in text for word in _LOCKS + _LASTS):
        return False
    if _ANOTHER.search(text) or may_call(dialect, text):
        return False
    return not (text.startswith("WITH") and _WRITES.search(text))


@lru_cache(maxsize=500)
def _writes(statement: str) -> bool:
    """Return whether a statement surely writes."""
    text = _bare(statement)
    return text.startswith(_CHANGES) or (text.startswith("WITH") and bool(_WRITES.search(text)))


def _bare(statement: str) -> str:
    """Return a statement in capitals, without comments before it."""
    text = statement.upper()
    while comment := _COMMENTS.match(text):
        text = text[comment.end() :]
    return text.lstrip().removeprefix("(")


def _after_begin(session: Session, _: Any, connection: Connection) -> None:
    # Also fired for a savepoint, and for a second session on the connection. Writes that came
    # before either of them still count.
    mark = _marks.get(connection)
    if mark is None:
        _statements.listen(connection)
        mark = _marks[connection] = Mark(connection)
        # Such a session commits also what others have written over the connection.
        mark.is_broken = (
            isinstance(session.bind, Connection)
            and session.join_transaction_mode == "control_fully"
        )
        mark.wrote = mark.is_broken
        if facts_of(connection.dialect.name).one_writer:
            _own().add(connection)
    # Once only: each enqueue and each flush looks at all of them.
    found = session.info.setdefault(_KEY, [])
    if connection not in found:
        found.append(connection)
        mark.sessions.add(session.hash_key)
        if mark.wrote:  # by somebody else: no savepoint of this session undoes that
            for before in session.info.get(_BEFORE, {}).values():
                before.add(connection)


def _wanted(connection: Connection | Engine) -> Iterator[Wanted]:
    dialect, engine = connection.dialect, connection.engine
    # The dialect's events are used: an engine's own cost each transaction a sixth of an enqueue's
    # time. But where a listener executes the statement itself, SQLAlchemy calls no later listener.
    known = dialect.dispatch
    if known.do_execute or known.do_executemany or known.do_execute_no_params:
        yield engine, "before_cursor_execute", _before_on
    else:
        yield dialect, "do_execute", _before
        yield dialect, "do_executemany", _before
        yield dialect, "do_execute_no_params", _before
    if facts_of(dialect.name).driver_use:
        yield engine, "after_cursor_execute", _after


_statements = FirstUse(attrgetter("dialect"), _wanted)
"""The dialects, one per engine, whose statements are listened to: those that sessions use. A
worker's statements have no session, and a listener would cost each of them a tenth of its time."""


def _after_transaction_create(session: Session, transaction: SessionTransaction) -> None:
    if transaction.nested:
        session.info.setdefault(_BEFORE, {})[transaction] = writers(session)


def _after_rollback(session: Session) -> None:
    """Forget the writes that a savepoint has undone, so that emails may follow them."""
    before = session.info.get(_BEFORE, {}).get(session.get_nested_transaction())
    if before is None:
        return
    for connection in session.info.get(_KEY, ()):
        if connection not in before and connection in _marks:
            mark = _marks[connection]
            mark.wrote, mark.writes, mark.had_written = False, None, False


def _after_transaction_end(session: Session, transaction: SessionTransaction) -> None:
    session.info.get(_BEFORE, {}).pop(transaction, None)
    if transaction.parent is None:
        for connection in session.info.pop(_KEY, ()):
            _leave(session, connection)


def _leave(session: Session, connection: Connection) -> None:
    """Forget the connection, unless another session is in the same transaction of it."""
    mark = _marks.pop(connection, None)
    if mark is None:
        return
    mark.had_written |= mark.writes is not None  # whatever comes now, comes behind it
    is_of_it = session.hash_key in mark.sessions
    mark.sessions.discard(session.hash_key)
    if mark.sessions and (connection.in_transaction() or not is_of_it):
        _marks[connection] = mark


def _listen() -> None:
    event.listen(Session, "after_begin", _after_begin)
    event.listen(Session, "after_transaction_create", _after_transaction_create)
    event.listen(Session, "after_rollback", _after_rollback)
    event.listen(Session, "after_transaction_end", _after_transaction_end)


_listen()
