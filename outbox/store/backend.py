"""Chooses the operations that a database does in its own way; no other file chooses them.

Mere facts stand in `connection/facts.py`.
"""

from __future__ import annotations

from .mysql import cancel, deletion, function_calls, index_hints, undone
from .mysql import lock_wait as mysql_lock_wait
from .mysql import newsletters as mysql_newsletters
from .mysql import place as mysql_place
from .mysql import privileges as mysql_privileges
from .mysql import server as mysql_server
from .mysql import sums as mysql_sums
from .mysql import waiting as mysql_waiting
from .operations import Backend
from .postgresql import (
    claim,
    copy,
    due_counts,
    insert,
    lane_keys,
    pending_writes,
    permits,
    window,
)
from .postgresql import lock_wait as postgresql_lock_wait
from .postgresql import place as postgresql_place
from .postgresql import server as postgresql_server
from .postgresql import sums as postgresql_sums
from .postgresql import waiting as postgresql_waiting
from .postgresql.catalog import commit_waits, privileges, table_locks
from .postgresql.pages import newsletters
from .postgresql.pages import problems as postgresql_problems
from .postgresql.telling import local_commit, marks
from .sqlite import file, last_id
from .sqlite import lane_keys as sqlite_lane_keys
from .sqlite import sums as sqlite_sums

_POSTGRESQL = Backend(
    insert=insert,
    copy=copy,
    lane_keys=lane_keys,
    due_counts=due_counts,
    claim_due=claim.claim_due,
    claim_whole=claim.claim_whole,
    renew_mark=marks.renew,
    renew_worker=marks.renew_worker,
    commit_locally=local_commit.commit_locally,
    fold=postgresql_sums.fold,
    waiting=postgresql_waiting.emails,
    group_problems=postgresql_problems.group_newest,
    last_attempts=postgresql_problems.last_attempts,
    newsletter_ids=newsletters.last_ids,
    tag_findings=newsletters.findings,
    take_permits=permits.take,
    advance=window.advance,
    bounded=postgresql_lock_wait.bounded,
    bounded_quietly=postgresql_lock_wait.bounded_quietly,
    lock_waits=table_locks.waits,
    lock_lines=table_locks.lines,
    commit_waits=commit_waits.waits,
    commit_lines=commit_waits.lines,
    place=postgresql_place.place,
    identity=postgresql_server.identity,
    holds=pending_writes.holds,
    is_undone=pending_writes.is_undone,
    lacking_privileges=privileges.lacking_privileges,
    elsewhere=postgresql_server.elsewhere,
    session_errors=postgresql_server.session_errors,
    encoding_warnings=postgresql_server.encoding_warnings,
    read_only_errors=postgresql_server.read_only_errors,
    durability_warnings=postgresql_server.durability_warnings,
    idle_warnings=postgresql_server.idle_warnings,
    replica_warnings=postgresql_server.replica_warnings,
    vacuum_warnings=postgresql_server.vacuum_warnings,
)
_SQLITE = Backend(
    lane_keys=sqlite_lane_keys,
    add_to_sums=sqlite_sums.add,
    identity=file.identity,
    id_warnings=last_id.id_warnings,
)
_MYSQL = Backend(
    withdraw=cancel.withdraw,
    add_to_sums=mysql_sums.add,
    waiting=mysql_waiting.emails,
    first_waiting=mysql_waiting.first,
    go_by=index_hints.go_by,
    probes=mysql_newsletters.probes,
    waiting_tags=mysql_newsletters.waiting_tags,
    delete_keyed=deletion.delete_keyed,
    bounded=mysql_lock_wait.bounded,
    bounded_quietly=mysql_lock_wait.bounded_quietly,
    place=mysql_place.place,
    delete_pairs=deletion.delete_pairs,
    identity=mysql_server.identity,
    is_undone=undone.is_undone,
    may_call=function_calls.may_call,
    lacking_privileges=mysql_privileges.lacking_privileges,
    session_errors=mysql_server.session_errors,
    refusals=mysql_server.refusals,
    is_cut_off=mysql_server.is_cut_off,
    cluster_lines=mysql_server.cluster_lines,
    durability_warnings=mysql_server.durability_warnings,
    idle_warnings=mysql_server.idle_warnings,
    replica_warnings=mysql_server.replica_warnings,
    packet_warnings=mysql_server.packet_warnings,
)
_BACKENDS = {"postgresql": _POSTGRESQL, "sqlite": _SQLITE, "mysql": _MYSQL, "mariadb": _MYSQL}
_UNKNOWN = Backend()


def backend_of(dialect: str) -> Backend:
    """Return the backend of the database with this dialect name."""
    return _BACKENDS.get(dialect, _UNKNOWN)
