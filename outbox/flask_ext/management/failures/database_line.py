"""The line that tells people why the database does not serve, and what to do."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sqlalchemy import URL, Engine
from sqlalchemy.exc import SQLAlchemyError, StatementError

from ....store.connection.error_codes import describe
from ....store.queries.inspect_schema import is_behind, is_cut_off
from .failure import Failure, failure_of

if TYPE_CHECKING:
    from ....store.connection.database import Database

_TOLD = {
    Failure.NO_DATABASE: (
        "does not exist",
        "create it, or mend the database's name in the engine's URL",
    ),
    Failure.NO_LOGIN: (
        "refuses the login",
        "mend the user name or the password in the engine's URL, or let this user in",
    ),
    Failure.NO_FILE: (
        "cannot be opened",
        "mend the path in the engine's URL, or make the folder and let this user write there",
    ),
    Failure.FULL: (
        "takes no more connections",
        "raise its limit, or have fewer processes and smaller pools",
    ),
    Failure.POOL: (
        "was not asked, because the engine's pool has no free connection",
        "raise its pool_size, or find who keeps the connections",
    ),
    Failure.POOLER: (
        "cannot be reached by the pool before it",
        "start the database, or mend its host, port or login in the pool's settings; the pool's log"
        " says why",
    ),
    Failure.STATEMENT_MODE: (
        "allows no transactions, because the pool before it is in statement mode",
        "set pool_mode = transaction in PgBouncer",
    ),
    Failure.PRIVILEGE: (
        "refuses that to its role",
        "`flask outbox check` names the GRANT",
    ),
    Failure.LOCKED: (
        "holds a lock for somebody else",
        "find who (in pg_stat_activity or SHOW PROCESSLIST), or try again when it has ended",
    ),
    Failure.WRITER: (
        "is locked by another writer, so nothing can be enqueued or changed",
        "SQLite has one at a time. Find the process that keeps its transaction open (fuser names"
        " those that have the file open), or try again when it has ended",
    ),
    Failure.READ_ONLY: (
        "takes no writes, so nothing can be enqueued or sent",
        "it is a standby, a replica or set to read-only. Have the engine's URL lead to the primary,"
        " or let this one be written (MariaDB: SET GLOBAL read_only = OFF; SQLite: the file's"
        " rights)",
    ),
    Failure.NO_ROOM: (
        "has no room left on its disk",
        "make room there, then workers go on by themselves",
    ),
    Failure.NO_QUORUM: (
        "is a Galera node that takes no statement: it has not joined its cluster yet, or has lost"
        " most of the other nodes",
        "it goes on by itself when it is back among them. Have the balancer ask for wsrep_ready,"
        " and compare wsrep_cluster_status and wsrep_cluster_size on each node",
    ),
    Failure.BEHIND: (
        "is a Galera node that lags behind: it has not applied yet what others have committed",
        "it goes on by itself, unless something holds it up, such as a long ALTER TABLE (SHOW"
        " PROCESSLIST; wsrep_local_recv_queue counts what waits). Have the balancer lead to another"
        " node until then",
    ),
    Failure.NO_ANSWER: (
        "does not answer",
        "it, its disk or its host may stand still, or a firewall drops what is sent to it. Look at"
        " its host, and then at the host and the port in the engine's URL",
    ),
    Failure.NO_CONNECTION: (
        "cannot be reached",
        "start it, or mend the host, the port or the login in the engine's URL",
    ),
    Failure.OTHER: ("failed", "see its own log, and try again"),
}

_WORDS = 200
"""The most characters of a database's own words."""


def database_line(database: Database, error: BaseException) -> str:
    """Return which database does not serve, why, and the remedy, in one line."""
    failure = failure_of(error)
    if failure is Failure.LOCKED:
        failure = _of_a_node(database)
    told, remedy = _TOLD[failure]
    return f"the database {address_of(database.engine)} {told} ({describe(error)}): {remedy}"


def _of_a_node(database: Database) -> Failure:
    """Return why a statement has waited in vain for a lock: Galera has other reasons, too."""
    with suppress(SQLAlchemyError):
        if is_cut_off(database.engine):
            return Failure.NO_QUORUM
        if is_behind(database):
            return Failure.BEHIND
    return Failure.LOCKED


def refused_line(engine: Engine, error: SQLAlchemyError) -> str:
    """Return which database refuses an email that nobody has written, and its own words.

    No other error's words are shown, because they quote rows.
    """
    original = error.orig if isinstance(error, StatementError) else error
    words = str(next(reversed(getattr(original, "args", ())), "")).strip().partition("\n")[0]
    return (
        f"the database {address_of(engine)} refuses to store an email, so nothing can be enqueued"
        f" ({describe(error)}: {words[:_WORDS]}): mend what it names"
    )


def address_of(engine: Engine) -> str:
    """Return the database's address without user, password and options.

    A password with an @ that is not escaped spills over into the host and the database.
    """
    url = engine.url
    hosts = _hosts(url)
    spills = any("@" in str(part) for part in (url.host, url.database, *url.query, hosts))
    if url.username is not None and spills:
        return f"{url.get_backend_name()}://…"
    bare = URL.create(url.get_backend_name(), host=url.host, port=url.port, database=url.database)
    return str(bare) if not hosts else f"{url.get_backend_name()}://{hosts}/{url.database or ''}"


def _hosts(url: URL) -> str:
    """Return the hosts of a URL that names them as options, with a comma between them.

    SQLAlchemy writes several hosts so, each with its port or with all ports in an option of theirs.
    """
    if url.host:
        return ""
    hosts, ports = _values(url, "host"), _values(url, "port")
    if len(ports) == len(hosts):
        hosts = [f"{host}:{port}" for host, port in zip(hosts, ports, strict=True)]
    return ",".join(host for host in hosts if not host.startswith(("/", "@")))


def _values(url: URL, name: str) -> list[str]:
    return [one for value in url.normalized_query.get(name, ()) for one in value.split(",")]
