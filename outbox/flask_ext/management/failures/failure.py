"""Tells why a database does not serve, so that a person can be told what to do."""

from __future__ import annotations

import re
from enum import Enum, auto

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from ....store.connection.error_codes import LOCK_TIMEOUT, code_of
from ....store.connection.privileges import lacks_privilege


class Failure(Enum):
    """Why a database does not serve."""

    NO_DATABASE = auto()
    NO_LOGIN = auto()
    NO_FILE = auto()
    FULL = auto()  # it takes no more connections
    POOL = auto()  # the engine's own pool has no free connection
    POOLER = auto()  # a pool before it has no connection to it
    STATEMENT_MODE = auto()  # a pool before it allows no transaction of several statements
    PRIVILEGE = auto()  # the role lacks one, and no row is at fault
    LOCKED = auto()  # others hold a lock for longer than a statement waits for it
    WRITER = auto()  # SQLite: another transaction writes for longer than this one waits
    READ_ONLY = auto()  # it takes no writes: a standby, a replica, or a setting
    NO_ROOM = auto()  # its disk is full
    NO_QUORUM = auto()  # a Galera node that is not in step with most of its cluster
    BEHIND = auto()  # a Galera node that has not applied yet what the others have committed
    NO_ANSWER = auto()  # it takes connections and is silent, or what is sent to it is dropped
    NO_CONNECTION = auto()  # none of these, as far as is known
    OTHER = auto()


_BUSY = (
    *("SQLITE_BUSY", "SQLITE_BUSY_SNAPSHOT", "SQLITE_BUSY_RECOVERY", "SQLITE_BUSY_TIMEOUT"),
    *("SQLITE_LOCKED", "SQLITE_LOCKED_SHAREDCACHE"),
)
_FAILURES: tuple[tuple[Failure, frozenset[int | str], str], ...] = (
    (Failure.NO_FILE, frozenset({"SQLITE_CANTOPEN"}), r"unable to open database file"),
    (Failure.STATEMENT_MODE, frozenset(), r"statement pooling"),
    (
        Failure.POOLER,
        frozenset(),
        r"server login (has been failing|failed)|server_login_retry|query_wait_timeout"
        r"|pgbouncer cannot connect",
    ),
    (
        Failure.NO_DATABASE,
        frozenset({"3D000", 1049}),
        r"\bdatabase \S+ does not exist|no such database",
    ),
    (
        Failure.NO_LOGIN,
        frozenset({"28000", "28P01", 1044, 1045, 1698}),
        r"\brole \S+ does not exist|authentication failed|no password supplied|no such user"
        r"|pg_hba\.conf",
    ),
    (Failure.FULL, frozenset({"53300", 1040, 1203}), r"too many clients|connection slots"),
    (Failure.LOCKED, LOCK_TIMEOUT, r"due to lock timeout"),
    (Failure.WRITER, frozenset(_BUSY), r"database (table )?is locked"),
    (
        Failure.READ_ONLY,
        frozenset({"25006", 1290, 1792, 1836, "SQLITE_READONLY"}),
        r"read-only transaction|readonly database"
        r"|session is read-only|server is in hot standby mode",  # by target_session_attrs
    ),
    (
        Failure.NO_ROOM,
        frozenset({"53100", 1021, 1114, "SQLITE_FULL"}),
        r"No space left on device|disk is full",
    ),
    (Failure.NO_QUORUM, frozenset(), r"WSREP has not yet prepared node"),  # 1047 has other causes
)
"""By failure: the codes, and the driver's words. psycopg has no code for a refused connection."""


_TIMED_OUT = re.compile(r"timeout expired|timed out|system error: 110\b|\(110\)")
"""What drivers say of a connection that was not made in time; 110 is Linux' number for it."""


def failure_of(error: BaseException) -> Failure:
    """Return why the database does not serve, as far as the error tells."""
    if isinstance(error, PoolTimeoutError):
        return Failure.POOL
    if not isinstance(error, DBAPIError):
        return Failure.OTHER
    if lacks_privilege(error):
        return Failure.PRIVILEGE
    code, words = code_of(error), str(error.orig)
    for failure, codes, pattern in _FAILURES:
        if code in codes or re.search(pattern, words):
            return failure
    # SQLAlchemy names the statement, and there is none before a connection is open.
    if error.statement is not None:
        return Failure.OTHER
    return Failure.NO_ANSWER if _TIMED_OUT.search(words) else Failure.NO_CONNECTION
