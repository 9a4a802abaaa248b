"""The tables' names for hand-written statements, with the same schema as SQLAlchemy's statements.

An engine's `schema_translate_map` moves tables from schema to schema. The statements of the workers
and of an enqueue must mean the same tables. So only one map counts: that of the outbox's engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Engine, Table

from ...domain.errors import ConfigurationError

_OPTION = "schema_translate_map"
_MOVED = (
    "schema_translate_map of the session's engine moves outbox_email to the schema {theirs!r}, but"
    " the workers look in {ours!r}. Give the engine of the outbox the same map, or give init_app a"
    " metadata=MetaData(schema=…) whose schema no map names"
)


def schema_of(table: Table, engine: Engine) -> str | None:
    """Return the schema in which this engine has the table; None: the connection's own schema."""
    return _moved(table.schema, _map_of(engine), engine.dialect.default_schema_name)


def moved_schema(table: Table, engine: Engine) -> str | None:
    """Return the schema in which this engine has the table, as far as is known without connecting.

    None is the default schema. Nobody knows its name before the first connection.
    """
    return _moved(table.schema, _map_of(engine), None)


def name_of(table: Table, engine: Engine) -> str:
    """Return the table's name with its schema, quoted if this engine's database needs it."""
    preparer = engine.dialect.identifier_preparer
    schema = schema_of(table, engine)
    name = preparer.quote(table.name)
    return name if schema is None else f"{preparer.quote_schema(schema)}.{name}"


def refuse_moved(connection: Connection, table: Table, engine: Engine) -> None:
    """Raise ConfigurationError if connection and engine have the table in different schemas."""
    theirs, ours = _map_of(connection), _map_of(engine)
    if theirs == ours:
        return
    default = connection.dialect.default_schema_name
    places = [_moved(table.schema, moves, default) or default for moves in (theirs, ours)]
    if places[0] != places[1]:
        raise ConfigurationError(_MOVED.format(theirs=places[0], ours=places[1]))


def _map_of(source: Engine | Connection) -> Mapping[str | None, str | None]:
    options: Mapping[str, Any] = source.get_execution_options()
    return options.get(_OPTION) or {}


def _moved(
    schema: str | None, moves: Mapping[str | None, str | None], default: str | None
) -> str | None:
    # A map to None means the default schema, even for a table that names another one.
    return (moves[schema] or default) if schema in moves else schema
