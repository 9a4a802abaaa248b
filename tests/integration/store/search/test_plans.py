"""Among 240,000 emails every page goes by an index and reads a bounded number of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import event

from outbox import Priority
from outbox.domain.search.digests import message_id_digest, recipient_digest
from outbox.flask_ext.management.health import overview
from outbox.flask_ext.management.newsletters import reports
from outbox.store.instance.held import HeldGlance, glance
from outbox.store.queries.standstill import MOST_COUNTED
from outbox.store.queries.waiting import MOST_FAILED
from outbox.store.search.candidates import MOST_READ
from outbox.store.search.problems import MOST_LOOKED_AT
from tests.support.shop.shop import Shop

pytestmark = [pytest.mark.long, pytest.mark.databases("postgresql")]

NEWS, OTHERS, FAILED = 120_000, 120_000, 20_000
START = datetime(2026, 1, 1, tzinfo=UTC)

_FILL = f"""
INSERT INTO outbox_content (size, crc32, body, subject, created_at)
    SELECT 1, 1, 'x', CASE g WHEN 0 THEN 'news' ELSE 'order ' || g END, now()
    FROM generate_series(0, {OTHERS}) AS g;
INSERT INTO outbox_email (content_id, created_at, due_at, finished_at, size, priority, attempts,
    crashes, unknown_count, recipients, smtputf8, eightbit, status, lane, sender, recipient,
    message_id, headers, tag)
SELECT greatest(1, g - {NEWS} + 1), '2026-01-01'::timestamptz + g * interval '1 second',
    CASE WHEN g > {NEWS + OTHERS} - 7000 THEN now() + interval '1 day' END,
    CASE WHEN g <= {NEWS + OTHERS} - 7000 THEN now() - g * interval '1 second' END,
    1, CASE WHEN g <= {NEWS} THEN {Priority.BULK:d} ELSE 1 END, 1, 0, 0, 1, false, false,
    CASE WHEN g > {NEWS + OTHERS} - 7000 THEN 'pending' WHEN g % 10 = 3 AND g < 10 * {FAILED}
        THEN 'failed' WHEN g % 1000 = 7 THEN 'cancelled' ELSE 'sent' END,
    '', 's@shop.example', 'r' || g % 3000 || '@x.example', '<' || g || '@shop.example>', '',
    CASE WHEN g <= {NEWS} THEN 'news' WHEN g % 100 = 0 THEN 'order-' || g END
FROM generate_series(1, {NEWS + OTHERS}) AS g;
INSERT INTO outbox_lookup SELECT hashint8extended(id, 1), id FROM outbox_email;
INSERT INTO outbox_lookup SELECT %(recipient)s, id FROM outbox_email
    WHERE recipient = 'r7@x.example';
INSERT INTO outbox_lookup SELECT %(message_id)s, 77;
INSERT INTO outbox_attempt (email_id, started_at, finished_at, verdict, phase, code, enhanced,
    reply, worker, server)
SELECT id, now(), now(), 'fail', 'rcpt', 550, '5.1.1', 'no such user', 'host:1', 'mx:25'
FROM outbox_email;
"""
_HELD = f"due_at IS NOT NULL AND id > {NEWS + OTHERS} - 6000"
_TABLES = ("content", "email", "lookup", "attempt")
LARGE = tuple(f"outbox_{table}" for table in _TABLES)

PAGES: dict[str, dict[str, Any]] = {
    "all": {},
    "recipient": {"recipient": "R7@x.example"},
    "message_id": {"message_id": "<77@shop.example>"},
    "subject of one": {"subject": "order 77777"},
    "subject of some": {"subject": "order 7777"},
    "subject of a newsletter": {"subject": "NEWS"},
    "subject of too many": {"subject": "order "},
    "tag": {"tag": "news"},
    "tag of one": {"tag": f"order-{NEWS + 100}"},
    "key": {"key": "nobody's"},
    "time": {"since": START + timedelta(seconds=500), "until": START + timedelta(seconds=900)},
    "failed": {"status": "failed"},
    "pending": {"status": "pending"},
    "sending": {"status": "sending"},
    "sent": {"status": "sent"},
    "recipient and status": {"recipient": "r7@x.example", "status": "cancelled"},
    "tag and status": {"tag": "news", "status": "cancelled"},
    "tag and failed": {"tag": "order-1", "status": "failed"},
    "time and status": {"since": START, "status": "expired"},
    "subject and tag": {"subject": "news", "tag": "order-1"},
    "failed, of a group": {"status": "failed", "reply": "550 5.1.1", "server": "mx:25"},
    "failed, of no group": {"status": "failed", "domain": "nowhere.example"},
    "subject, tag and time": {"subject": "order 1", "tag": "news", "since": START},
}


@pytest.fixture
def full(shop: Shop) -> Shop:
    digests = {
        "recipient": recipient_digest("r7@x.example"),
        "message_id": message_id_digest("<77@shop.example>"),
    }
    with shop.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in _FILL.split(";")[:-1]:
            names = {name: value for name, value in digests.items() if f"({name})s" in statement}
            text = statement if names else statement.replace("%", "%%")
            connection.exec_driver_sql(text, names or None)
        for table in _TABLES:
            connection.exec_driver_sql(f"VACUUM ANALYZE outbox_{table}")
    return shop


def test_each_page_goes_by_an_index_and_reads_a_bounded_number_of_rows(full: Shop) -> None:
    for name, filters in PAGES.items():
        first = partial(full.outbox.list, **filters, limit=20)
        check(name, steps(full, first), most=8 * MOST_READ)
        if (after := first().next) is not None:
            check(name, steps(full, partial(first, after=after)), most=8 * MOST_READ)
    grouped = [
        one for one in steps(full, full.outbox.problems) if one.get("Relation Name") in LARGE
    ]
    check("problems", grouped, most=4 * MOST_LOOKED_AT)
    listed = partial(reports.newsletters, full.runtime, before=None, limit=10)
    assert [(one.tag, one.is_counted) for one in listed().newsletters] == [("news", False)]
    check("newsletters", steps(full, listed), most=3 * MOST_READ)
    state = steps(full, partial(overview, full.runtime))
    check("overview", [one for one in state if one.get("Relation Name") in LARGE], 3 * MOST_COUNTED)
    needed = [one for one in state if one.get("Index Name") == "ix_outbox_email_attention"]
    counted = [(one["Node Type"], one["Actual Rows"], one["Heap Fetches"]) for one in needed]
    assert {(kind, heap) for kind, _, heap in counted} == {("Index Only Scan", 0)}, "none is read"
    *lately, most = sorted(rows for _, rows, _ in counted)
    assert most == MOST_COUNTED
    assert len(lately) == 2, "what failed lately is counted, and then read: it is many"
    assert max(lately) <= MOST_FAILED
    one = steps(full, partial(reports.newsletter, full.runtime, "news"))
    check("newsletter", one, most=3 * reports.OF_ONE.counted)
    with full.engine.begin() as connection:
        held = f"UPDATE outbox_email SET due_at = '9000-01-01 00:00:00Z' WHERE {_HELD}"
        connection.exec_driver_sql(held)
    assert glances(full).emails == 6000
    check("held", steps(full, partial(glances, full)), most=3 * MOST_COUNTED)


def glances(shop: Shop) -> HeldGlance:
    return shop.database.read(lambda c: glance(c, shop.database, groups=5, emails=5))


def check(name: str, nodes: list[dict[str, Any]], most: int) -> None:
    scans = [node for node in nodes if "Relation Name" in node]
    by_rows = [node["Relation Name"] for node in scans if node["Node Type"] == "Seq Scan"]
    assert by_rows == [], name
    assert sum(map(read, nodes)) <= most, (name, [(n["Node Type"], read(n)) for n in scans])


def read(node: dict[str, Any]) -> float:
    """Return how many rows, or entries of an index, a step of a plan has read."""
    if "Scan" not in node["Node Type"] or node["Node Type"] in ("CTE Scan", "Subquery Scan"):
        return 0
    dropped = ("Rows Removed by Filter", "Rows Removed by Index Recheck")
    return float(
        (node["Actual Rows"] + sum(node.get(d, 0) for d in dropped)) * node["Actual Loops"]
    )


def steps(shop: Shop, look: Callable[[], object]) -> list[dict[str, Any]]:
    """Return the steps of the plans of a look's statements, as they are run."""
    seen: list[tuple[str, Any]] = []

    def note(conn: object, cursor: object, statement: str, values: Any, *rest: object) -> None:
        seen.append((statement, values))

    event.listen(shop.engine, "before_cursor_execute", note)
    look()
    event.remove(shop.engine, "before_cursor_execute", note)
    with shop.engine.connect() as connection:
        explained = ((f"EXPLAIN (ANALYZE, FORMAT JSON) {one}", values) for one, values in seen)
        found = [connection.exec_driver_sql(*one).scalar_one()[0]["Plan"] for one in explained]
    return [step for plan in found for step in each(plan)]


def each(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", []):
        yield from each(child)
