"""Asks a MariaDB or MySQL server which database it is, and which of its limits are a risk."""

from __future__ import annotations

from collections.abc import Hashable

from sqlalchemy import Connection

_IDENTITY = "SELECT @@hostname, @@port, @@datadir, database()"
_CLUSTER = "SHOW STATUS LIKE 'wsrep_cluster_state_uuid'"
_STATEMENTS = (
    "binlog_format is STATEMENT: the server refuses what workers write (error 1665), and no email"
    " is sent. Set it to MIXED or ROW"
)

_BREAKING = frozenset({"ORACLE", "EMPTY_STRING_IS_NULL"})
_MODES = (
    "sql_mode has {modes}, with which MariaDB refuses the outbox's statements (errors 1064 and"
    " 1048): take that out of the server's sql_mode, or set another one for this engine's sessions"
)

_READ_ONLY = "SELECT @@global.read_only, @@global.innodb_read_only"
_REPLICA = (
    "plain reads go to a replica, or to a server that is read-only: workers see old figures and no"
    " new emails. Send all of the app's statements to the primary (with MaxScale by readconnroute"
    " and router_options=master, with ProxySQL by a rule for the app's user)"
)

_NODE = (
    "the server is a Galera node: the outbox's own statements wait for what the other nodes have"
    " committed (wsrep_sync_wait is {} in its sessions)"
)


def identity(connection: Connection) -> Hashable:
    """Return a value that identifies the server and the database. It needs no privilege.

    All nodes of a Galera cluster are one server: a balancer may lead to any of them.
    """
    own = tuple(connection.exec_driver_sql(_IDENTITY).one())
    told = connection.exec_driver_sql(_CLUSTER).first()
    if told is None or not told[1].strip("0-"):  # without Galera it is empty or zeros
        return own
    return ("galera", told[1], own[-1])


def session_errors(connection: Connection) -> list[str]:
    """Return a line if the session has a mode of SQL in which our statements mean another thing."""
    shown = str(connection.exec_driver_sql("SELECT @@SESSION.sql_mode").scalar())
    found = sorted(_BREAKING.intersection(shown.split(",")))
    return [_MODES.format(modes=" and ".join(found))] if found else []


def refusals(connection: Connection) -> list[str]:
    """Return a line if the server takes no write under READ COMMITTED, as the workers' are.

    InnoDB writes such a transaction to the binary log only as rows.
    """
    shown = _shown(connection, "log_bin", "binlog_format")
    return [_STATEMENTS] if shown == {"log_bin": "ON", "binlog_format": "STATEMENT"} else []


def durability_warnings(connection: Connection) -> list[str]:
    """Return a warning for each setting with which the server may lose a commit.

    With a binary log the commit itself is not flushed: after a crash the binary log tells of it.
    MariaDB flushes both with a 3 for the first setting.
    """
    flush, sync = "innodb_flush_log_at_trx_commit", "sync_binlog"
    shown = _shown(connection, flush, sync, "log_bin")
    found = [flush] if shown.get(flush) in ("0", "2") else []
    if shown.get("log_bin") == "ON" and shown.get(flush) != "3" and shown.get(sync) != "1":
        found.append(sync)
    return [f"{name} is {shown.get(name)}, not 1" for name in found]


def cluster_lines(connection: Connection) -> list[str]:
    """Return a line if the server is a Galera node, for which this session waits at times."""
    shown = _shown(connection, "wsrep_on", "wsrep_sync_wait")
    return [_NODE.format(shown["wsrep_sync_wait"])] if shown.get("wsrep_on") == "ON" else []


def is_cut_off(connection: Connection) -> bool:
    """Return whether the server is a Galera node that takes no statement now.

    Where it is asked to wait for the others first, it answers as if a lock were held (1205).
    """
    told = connection.exec_driver_sql("SHOW STATUS LIKE 'wsrep_ready'").first()
    clustered = connection.exec_driver_sql("SHOW VARIABLES LIKE 'wsrep_on'").first()
    return bool(clustered and clustered[1] == "ON" and told and told[1] == "OFF")


def idle_warnings(connection: Connection) -> list[str]:
    """Return a warning if an idle transaction keeps its locks. MySQL has no such limit."""
    name = "idle_transaction_timeout"
    limit = connection.exec_driver_sql(f"SHOW VARIABLES WHERE variable_name = '{name}'").first()
    return [f"{name} is 0"] if limit is not None and int(limit[1]) == 0 else []


def replica_warnings(connection: Connection) -> list[str]:
    """Return a warning if this connection, which is in autocommit, reads from a replica.

    A proxy that distributes reads sends this statement where it sends those of a sweep. On Aurora's
    replicas only InnoDB is read-only.
    """
    values = connection.exec_driver_sql(_READ_ONLY).one()
    return [_REPLICA] if any(str(value) not in ("0", "OFF") for value in values) else []


def packet_warnings(connection: Connection, size: int) -> list[str]:
    """Return a warning if the limit of a statement is too low for an email of `size` octets.

    The server ends the connection of an enqueue that exceeds the limit. In a statement of several
    packets, MariaDB 10.11 was seen to take only half of the limit.
    """
    most = int(connection.exec_driver_sql("SELECT @@max_allowed_packet").scalar_one())
    text = f"max_allowed_packet is {most}: it must be over twice OUTBOX_MAX_SIZE"
    return [] if most > 2 * size else [text]


def _shown(connection: Connection, *names: str) -> dict[str, str]:
    """Return the values of those variables that this server has."""
    listed = ", ".join(f"'{name}'" for name in names)
    shown = connection.exec_driver_sql(f"SHOW VARIABLES WHERE variable_name IN ({listed})")
    return {str(name).lower(): str(value).upper() for name, value in shown}
