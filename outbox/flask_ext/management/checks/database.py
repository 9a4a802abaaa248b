"""Examines the database: its schema, its settings, and the servers' rows in it."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from ....domain.errors import ConfigurationError
from ....store.connection.drivers import untried
from ....store.connection.error_codes import NO_TABLES, is_lock_timeout
from ....store.connection.psycopg import prepared_statements
from ....store.control.pause import paused
from ....store.queries.clock_skew import ahead_warnings, seconds_ahead, skew_warnings
from ....store.queries.inspect_schema import (
    Schema,
    cluster_lines,
    durability_warnings,
    elsewhere,
    encoding_warnings,
    id_warnings,
    idle_warnings,
    inspect_schema,
    lacking_privileges,
    older_line,
    older_schema,
    packet_warnings,
    reach_tables,
    read_only_errors,
    refusals,
    replica_warnings,
    session_errors,
    vacuum_warnings,
    versions_line,
)
from ....store.queries.server_status import alerts, server_statuses
from ....store.schema.version import VERSION
from ...app.state import state_of
from ..emails import contents_refused
from ..failures.database_line import database_line
from ..server_lines import contents_line, paused_line, server_line
from .codes import Code
from .finding import Finding, error, ok, warn
from .long_waits import LEAST, commits, holders
from .privacy import privacy_findings
from .trial import trial_findings

if TYPE_CHECKING:
    from ....store.connection.database import Database
    from ....worker.process.runtime import Runtime

_TWO_COMMITS = (
    "OUTBOX_ALLOW_TWO_COMMITS is set: if the second of two commits fails, an email leaves without"
    " its rows, or never"
)
_IDLE = (
    "if a host vanishes within a transaction, others may wait for its locks until TCP gives up,"
    " mostly for two hours. Set it to a minute"
)


def database_findings(runtime: Runtime) -> list[Finding]:
    """Return the findings on the database; where tables are missing, only those on the schema.

    Where a setting of the session breaks our statements, only this is told.
    Without a privilege the tables seem to be missing, or cannot be read: so only this is told, and
    a migration that was forgotten. On MariaDB a table that it would bring seems to be forbidden.
    """
    try:
        if wrong := session_errors(runtime.database):
            return [error(text, Code.SESSION) for text in wrong]
        reach_tables(runtime.database)
        if lacking := lacking_privileges(runtime.database):
            found = [error(text, Code.PRIVILEGES) for text in lacking]
            return [*_forgotten_migration(runtime.database), *found]
        schema = inspect_schema(runtime.database)
        if schema.absent and not schema.version:
            return [error(f"schema: {elsewhere(runtime.database) or NO_TABLES}", Code.SCHEMA)]
        return _version(schema) + ([] if schema.absent else _settings(runtime))
    except ConfigurationError as refusal:
        return [error(str(refusal), Code.DATABASE)]
    except SQLAlchemyError as failure:
        found = [error(database_line(runtime.database, failure), Code.DATABASE)]
        if is_lock_timeout(failure):
            found += [error(text, Code.TABLE_LOCK) for text in holders(runtime.database)]
        return found


def _forgotten_migration(database: Database) -> list[Finding]:
    """Return a finding if the schema is older, as far as a role that lacks privileges can tell."""
    with suppress(SQLAlchemyError):
        if older := older_schema(database):
            return [error(older, Code.SCHEMA)]
    return []


def _version(schema: Schema) -> list[Finding]:
    """Return the findings on the schema: its version, and also what is missing.

    The version alone would not show that a table was lost.
    """
    findings = [
        error(f"schema: {text}: run your migrations", Code.SCHEMA) for text in schema.missing
    ]
    findings += [
        error(
            f"schema: {name} needs a value, but this code does not know it: update the code",
            Code.SCHEMA,
        )
        for name in schema.demanded
    ]
    if schema.version < VERSION:
        findings.append(error(older_line(schema.version), Code.SCHEMA))
    elif schema.version > VERSION:
        text = f"{versions_line(schema.version)}: the code is older, update it when you can"
        findings.append(warn(text, Code.SCHEMA))
    elif not findings:
        findings.append(ok(f"the schema is complete: version {VERSION}", Code.SCHEMA))
    return findings


def _server_settings(database: Database) -> list[Finding]:
    """Return the findings on the settings of the database's server."""
    findings = [error(text, Code.BINARY_LOG) for text in refusals(database)]
    findings += [error(text, Code.READ_ONLY) for text in read_only_errors(database)]
    findings += [error(text, Code.COMMITS) for text in commits(database)]
    findings += [
        warn(f"{text}: a committed email can be lost, or sent twice", Code.DURABILITY)
        for text in durability_warnings(database)
    ]
    findings += [warn(f"{text}: {_IDLE}", Code.IDLE) for text in idle_warnings(database)]
    findings += [warn(text, Code.REPLICA) for text in replica_warnings(database)]
    return findings + [ok(text, Code.CLUSTER) for text in cluster_lines(database)]


def _writes(runtime: Runtime) -> list[Finding]:
    """Return the findings on the server's settings, and on whether it takes an email."""
    found = _server_settings(runtime.database)
    if any(one.level == "error" for one in found):
        return found  # it refuses each write, and the reason is known
    trial = trial_findings(runtime)
    if any(one.code is Code.READ_ONLY for one in trial):  # not the plain reads alone
        found = [one for one in found if one.code is not Code.REPLICA]
    return [*found, *trial]


def _settings(runtime: Runtime) -> list[Finding]:
    database = runtime.database
    findings = [warn(text, Code.UNTRIED) for text in untried(database.engine)]
    findings += [error(text, Code.AUTOCOMMIT) for text in state_of(runtime.app).autocommit_errors()]
    findings += [warn(_TWO_COMMITS, Code.TWO_COMMITS)] if runtime.settings.allow_two_commits else []
    findings += [warn(text, Code.ENCODING) for text in encoding_warnings(database)]
    findings += _writes(runtime)
    findings += [ok(text, Code.POOLER) for text in prepared_statements.pooler(database)]
    unsafe = prepared_statements.unsafe(database.engine)
    findings += [warn(text, Code.PREPARED) for text in unsafe]
    findings += [warn(text, Code.VACUUM) for text in vacuum_warnings(database)]
    findings += [warn(text, Code.TABLE_LOCK) for text in holders(database, LEAST)]
    findings += [warn(text, Code.SCHEMA) for text in id_warnings(database)]
    findings += [warn(text, Code.CLOCK) for text in skew_warnings(seconds_ahead(database))]
    ahead = database.read(lambda connection: ahead_warnings(connection, database))
    findings += [warn(text, Code.CLOCK) for text in ahead]
    packets = packet_warnings(database, runtime.settings.max_size)
    findings += [warn(f"{text}: a large email fails", Code.PACKET) for text in packets]
    findings += privacy_findings(runtime)
    names = [server.name for server in runtime.servers]
    scopes = database.read(lambda connection: paused(connection, database))
    findings += [warn(paused_line(scope), Code.PAUSED) for scope in sorted(scopes)]
    servers = database.read(lambda connection: server_statuses(connection, database, names))
    urgent = alerts(servers)
    for one in servers:
        tell = error if one in urgent else warn if one.since else ok
        findings.append(tell(server_line(one), Code.SERVER))
    contents = database.read(partial(contents_refused, runtime=runtime, servers=servers))
    return [*findings, *(warn(contents_line(one), Code.CONTENTS) for one in contents)]
