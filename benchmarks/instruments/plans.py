"""Shows how PostgreSQL finds the due emails, by the executed plans of a sweep's statements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import BindParameter, Connection, text
from sqlalchemy.sql import ClauseElement, visitors

from benchmarks.ours import Ours
from outbox.domain.priority import Priority
from outbox.domain.scheduling.claim_plan import ClaimRequest
from outbox.store.postgresql.claim import beyond, claim_statement, mark_parameters
from outbox.store.queries.sweep.due_counts import count_parameters, count_statement
from outbox.store.queries.sweep.lane_keys import marked
from outbox.store.queries.sweep.sweep_snapshot import snapshot_statement
from outbox.store.records import Mark

EMAILS = "outbox_email"
_FIRST = text(
    "SELECT due_at, id FROM outbox_email WHERE due_at IS NOT NULL"
    " ORDER BY priority, lane, due_at, id LIMIT 1"
)


@dataclass(frozen=True)
class Scan:
    """One scan of the emails' table: by which index, or none, and how many rows it read."""

    index: str
    rows: int


@dataclass(frozen=True)
class Plan:
    """What one statement did: its scans of the emails, the pages it touched, and its time."""

    scans: tuple[Scan, ...]
    pages: int
    milliseconds: float

    @property
    def rows(self) -> int:
        """The number of emails that the scans read."""
        return sum(scan.rows for scan in self.scans)

    def __str__(self) -> str:
        told = (f"{scan.rows} rows by {scan.index}" for scan in self.scans if scan.rows)
        return f"{', '.join(told) or 'no rows'}; {self.pages} pages in {self.milliseconds:.1f} ms"


def plans(made: Ours) -> dict[str, Plan]:
    """Return how the survey and the claim read the emails; roll the session back."""
    runtime = made.runtime
    settings, database = runtime.settings, runtime.database
    share = ClaimRequest(lane="", priority=Priority.NORMAL, batches=1, size=settings.batch)
    way = (share.lane, share.priority)
    now, since = database.now(), beyond(runtime.tables.email, way)
    connection = made.app.db.session.connection()
    first = {way: Mark(*connection.execute(_FIRST).one())}
    start = {"now": datetime.now(UTC), **count_parameters(database, first, {way: most(made)})}
    look, count = snapshot_statement(database), count_statement(database, ways=1)
    claim = claim_statement(runtime.tables, share, uuid4(), now, since)
    found = {
        "survey": _plan(connection, look, marked(database, {})),
        "survey from its mark": _plan(connection, look, marked(database, first)),
        "count": _plan(connection, count, start),
        "claim": _plan(connection, claim, mark_parameters(first)),
    }
    made.app.db.session.rollback()
    return found


def most(made: Ours) -> int:
    """Return the most due emails that a sweep counts, however many there are."""
    return made.runtime.slots() * made.runtime.settings.batch


def _plan(connection: Connection, statement: ClauseElement, marks: Mapping[str, Any]) -> Plan:
    def give(parameter: BindParameter[Any]) -> None:
        if parameter.key in marks:
            parameter.value, parameter.required = marks[parameter.key], False

    visitors.traverse(statement, {}, {"bindparam": give})
    options = {"render_postcompile": True}
    compiled = statement.compile(dialect=connection.dialect, compile_kwargs=options)
    explained = f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, FORMAT JSON) {compiled}"
    (document,) = connection.exec_driver_sql(explained, dict(compiled.params)).scalar_one()
    top = document["Plan"]
    pages = top["Shared Hit Blocks"] + top["Shared Read Blocks"]
    return Plan(tuple(_read(top)), pages, document["Execution Time"])


def _read(node: dict[str, Any]) -> Iterator[Scan]:
    if node.get("Relation Name") == EMAILS and node["Node Type"].endswith("Scan"):
        rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        yield Scan(node.get("Index Name", node["Node Type"]), round(rows * node["Actual Loops"]))
    for child in node.get("Plans", ()):
        yield from _read(child)
