"""How PostgreSQL finds the due mails: the plans of a sweep's own statements, carried out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection
from sqlalchemy.sql import ClauseElement

from benchmarks.ours import Ours
from outbox.domain.claims import Share
from outbox.domain.priority import Priority
from outbox.store.claim import claim_statement
from outbox.store.survey import survey_statement

MAILS = "outbox_email"


@dataclass(frozen=True)
class Scan:
    """One look at the mails' table: by which index, or none, and how many rows it went through."""

    index: str
    rows: int


def scans(made: Ours) -> dict[str, list[Scan]]:
    """Return how the survey and the claim read the mails; the session is rolled back."""
    runtime = made.runtime
    settings, database = runtime.settings, runtime.database
    share = Share(lane="", priority=Priority.NORMAL, batches=1, size=settings.batch)
    statements: dict[str, ClauseElement] = {
        "survey": survey_statement(database, runtime.lanes, runtime.servers, most(made)),
        "claim": claim_statement(runtime.tables, share, uuid4(), database.now(), database.dialect),
    }
    connection = made.app.db.session.connection()
    found = {name: _scans(connection, each) for name, each in statements.items()}
    made.app.db.session.rollback()
    return found


def most(made: Ours) -> int:
    """Return how many due mails a sweep counts at the most, however many there are."""
    return made.runtime.settings.slots * made.runtime.settings.batch


def _scans(connection: Connection, statement: ClauseElement) -> list[Scan]:
    options = {"render_postcompile": True}
    compiled = statement.compile(dialect=connection.dialect, compile_kwargs=options)
    explained = f"EXPLAIN (ANALYZE, COSTS OFF, FORMAT JSON) {compiled}"
    (document,) = connection.exec_driver_sql(explained, dict(compiled.params)).scalar_one()
    return list(_read(document["Plan"]))


def _read(node: dict[str, Any]) -> Iterator[Scan]:
    if node.get("Relation Name") == MAILS and node["Node Type"].endswith("Scan"):
        rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        yield Scan(node.get("Index Name", node["Node Type"]), int(rows * node["Actual Loops"]))
    for child in node.get("Plans", ()):
        yield from _read(child)
