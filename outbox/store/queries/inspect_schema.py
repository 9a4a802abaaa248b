"""Compares the database's schema with the schema that this version needs."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from weakref import WeakSet

from sqlalchemy import (
    Connection,
    Engine,
    Inspector,
    Table,
    false,
    inspect,
    literal,
    select,
    union_all,
)
from sqlalchemy.engine.interfaces import ReflectedColumn
from sqlalchemy.exc import NoSuchTableError, SQLAlchemyError

from ..backend import backend_of
from ..bounded_waits import bounded_reads
from ..connection.database import Database
from ..connection.error_codes import is_lock_timeout
from ..connection.galera.causal import as_it_is
from ..connection.lone_engine import lone_engine
from ..schema.table_names import schema_of
from ..schema.version import VERSION, is_mark, version_of


@dataclass(kw_only=True)
class Schema:
    """The differences that were found in the database."""

    version: int = 0
    absent: int = 0  # how many of the outbox's tables are missing
    missing: list[str] = field(default_factory=list)  # the outbox's tables, columns and indexes
    demanded: list[str] = field(default_factory=list)  # unknown columns that need a value


def inspect_schema(database: Database) -> Schema:
    """Compare the tables in the database with those that this code needs."""
    tables = _tables(database)

    def work(connection: Connection) -> Schema:
        schema, inspector = Schema(), inspect(connection)
        for table in tables:
            _compare(schema, inspector, table, schema_of(table, database.engine))
        return schema

    return database.read(work)  # on SQLite `run` would wait for whoever writes


def elsewhere(database: Database) -> str | None:
    """Return in which other schema the missing tables stand, with the remedy; or None.

    A schema that the metadata or a map names is meant: there another schema's tables are another
    outbox's, such as a tenant's. It raises nothing. It has a connection of its own: the caller may
    hold the last one of the pool, in a transaction that has just failed.
    """
    own, table = backend_of(database.dialect).elsewhere, database.tables.email
    if own is None or schema_of(table, database.engine) is not None:
        return None
    engine = lone_engine(database.engine)
    try:
        with engine.connect() as connection:
            return own(connection, table.name)
    except SQLAlchemyError:
        return None
    finally:
        engine.dispose()


_CURRENT = WeakSet[Engine]()
"""Engines whose schema was seen to be as new as this code: it is not looked at again."""


def versions_line(version: int) -> str:
    """Return a line that tells the schema's version and this code's."""
    return f"the database's schema is version {version}, the code's {VERSION}"


def older_line(version: int) -> str:
    """Return a line for a schema that is older than this code, with the remedy."""
    return f"{versions_line(version)}: the database is older, run your migrations"


def older_schema(database: Database) -> str | None:
    """Return what is wrong, with the remedy, if a migration was forgotten, or else None.

    Returns None if tables are missing: the first statement tells of them.
    """
    if database.engine in _CURRENT:
        return None
    table = database.tables.pause  # its index carries the version

    def work(connection: Connection) -> int:
        found = inspect(connection).get_indexes(table.name, schema_of(table, database.engine))
        return version_of(str(each["name"]) for each in found)

    try:
        version = database.read(work)
    except NoSuchTableError:
        return None
    if version < VERSION:
        return older_line(version)
    _CURRENT.add(database.engine)
    return None


def lacking_privileges(database: Database) -> list[str]:
    """Return a line, with the remedy, for privileges on our tables that the role lacks."""
    own, tables = backend_of(database.dialect).lacking_privileges, _tables(database)
    if own is None:
        return []
    names = [table.name for table in tables]
    return database.read(lambda c: own(c, names, schema_of(tables[0], database.engine)))


def durability_warnings(database: Database) -> list[str]:
    """Return a warning for each setting with which the server may lose a commit.

    The outbox's promise depends on them. SQLite's durability is set in each outbox transaction.
    """
    own = backend_of(database.dialect).durability_warnings
    return [] if own is None else database.read(own)


def session_errors(database: Database) -> list[str]:
    """Return a line for each setting of the session with which our statements cannot work."""
    own = backend_of(database.dialect).session_errors
    return [] if own is None else database.read(own)


def encoding_warnings(database: Database) -> list[str]:
    """Return a warning if the database, or the way to it, has not every character."""
    own = backend_of(database.dialect).encoding_warnings
    return [] if own is None else database.read(own)


def read_only_errors(database: Database) -> list[str]:
    """Return a line if a setting makes each transaction read-only, though this is no standby."""
    own = backend_of(database.dialect).read_only_errors
    return [] if own is None else database.read(own)


def refusals(database: Database) -> list[str]:
    """Return a line for each setting with which the server refuses what workers write."""
    own = backend_of(database.dialect).refusals
    return [] if own is None else database.read(own)


def is_cut_off(engine: Engine) -> bool:
    """Return whether the engine leads to a node that its cluster has cut off."""
    own = backend_of(engine.dialect.name).is_cut_off
    if own is None:
        return False
    with engine.connect() as connection:
        try:
            found = own(connection)
        except BaseException:
            connection.invalidate()
            raise
        if found:
            connection.invalidate()  # such a node refuses the pool's ROLLBACK, too
        return found


def is_behind(database: Database) -> bool:
    """Return whether what has timed out for a lock waited for a node that lags behind its cluster.

    Then our tables answer at once, if only they need not be as new as those of the other nodes.
    """
    if backend_of(database.dialect).is_cut_off is None:
        return False
    with as_it_is():
        if not cluster_lines(database):
            return False
        try:
            reach_tables(database)
        except SQLAlchemyError:
            return False
    return True


def cluster_lines(database: Database) -> list[str]:
    """Return a line if the server is a node of a cluster for whose others the outbox waits."""
    own = backend_of(database.dialect).cluster_lines
    return [] if own is None else database.read(own)


def idle_warnings(database: Database) -> list[str]:
    """Return a warning if nothing ends a transaction whose host has vanished, but TCP."""
    own = backend_of(database.dialect).idle_warnings
    return [] if own is None else database.read(own)


def replica_warnings(database: Database) -> list[str]:
    """Return a warning if plain reads go to a replica, which may lag behind."""
    own = backend_of(database.dialect).replica_warnings
    return [] if own is None else database.read(own)


def packet_warnings(database: Database, size: int) -> list[str]:
    """Return a warning if a server's limit of a statement is too low for `size` octets."""
    own = backend_of(database.dialect).packet_warnings
    return [] if own is None else database.read(lambda connection: own(connection, size))


def vacuum_warnings(database: Database) -> list[str]:
    """Return a warning for each of our tables whose dead rows nothing removes."""
    own = backend_of(database.dialect).vacuum_warnings
    if own is None:
        return []
    return database.read(lambda connection: own(connection, database.names))


def reach_tables(database: Database) -> None:
    """Raise the driver's error if somebody has locked a whole table of ours against reads.

    Without this each examination would wait until that ends. It tells of nothing else.
    """
    if backend_of(database.dialect).bounded_quietly is None:
        return
    tables = [select(literal(1)).select_from(table).where(false()) for table in _tables(database)]
    with bounded_reads(database):
        try:
            database.read(lambda connection: connection.execute(union_all(*tables)).all())
        except SQLAlchemyError as error:
            if is_lock_timeout(error):
                raise


def lock_lines(database: Database, least: float = 0.0) -> list[str]:
    """Return a line for each session that has locked a whole table of ours, with the remedy.

    `least`: the seconds for which a statement must have waited for it. It waits for no lock itself.
    """
    own = backend_of(database.dialect).lock_lines
    if own is None:
        return []
    return database.read(lambda connection: own(connection, database.names, least))


def commit_lines(database: Database, least: float = 0.0) -> list[str]:
    """Return a line, with the remedy, if a commit has waited so long for a synchronous replica."""
    own = backend_of(database.dialect).commit_lines
    return [] if own is None else database.read(lambda connection: own(connection, least))


def id_warnings(database: Database) -> list[str]:
    """Return a warning for each table that may give an id of a purged row to another one."""
    own = backend_of(database.dialect).id_warnings
    return [] if own is None else database.read(lambda c: own(c, _tables(database)))


def _tables(database: Database) -> list[Table]:
    return [getattr(database.tables, each.name) for each in fields(database.tables)]


def _compare(schema: Schema, inspector: Inspector, table: Table, place: str | None) -> None:
    if not inspector.has_table(table.name, schema=place):
        schema.absent += 1
        schema.missing.append(f"table {table.name} is missing")
        return
    columns = {each["name"]: each for each in inspector.get_columns(table.name, place)}
    indexes = {str(each["name"]) for each in inspector.get_indexes(table.name, place)}
    schema.version = max(schema.version, version_of(indexes))
    schema.missing += [
        f"column {table.name}.{column.name} is missing"
        for column in table.columns
        if column.name not in columns
    ]
    schema.missing += [
        f"index {index.name} is missing"
        for index in table.indexes
        if index.name not in indexes and not is_mark(index.name)
    ]
    schema.demanded += [
        f"{table.name}.{name}"
        for name, column in columns.items()
        if name not in table.columns and not column["nullable"] and not _fills_itself(column)
    ]


def _fills_itself(column: ReflectedColumn) -> bool:
    return column["default"] is not None or "computed" in column or "identity" in column
