"""Writes millions of rows in seconds, as copies of one email that is enqueued in the usual way."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sqlalchemy import Table

from benchmarks.ours import Ours

_ATTEMPTS = """
INSERT INTO outbox_attempt (email_id, started_at, finished_at, verdict, phase, code, enhanced,
    reply, worker, server)
SELECT id, finished_at, finished_at, 'sent', 'dot', 250, '2.0.0', '2.0.0 Ok', 'host:1', 'mx:25'
FROM outbox_email WHERE status = 'sent' AND id > {template}
"""

_LOOKUPS = """
INSERT INTO outbox_lookup (digest, email_id)
SELECT ('x' || encode(substr(sha256(convert_to(kind || term, 'UTF8')), 1, 8), 'hex'))::bit(64)
    ::bigint, id
FROM outbox_email, LATERAL (VALUES ('r', recipient), ('m', message_id)) terms (kind, term)
WHERE id > {above}
ON CONFLICT DO NOTHING
"""
"""The digests as `domain/search/digests.py` makes them."""

_CHUNK = 5_000_000
"""Rows of one statement."""

_UNCHECKED = "SET session_replication_role = replica"
"""Turns off the foreign keys' checks of each copied email; they take longer than the copy."""
_CHECKED = "RESET session_replication_role"


def finished(made: Ours, rows: int, changes: Mapping[str, str] = MappingProxyType({})) -> None:
    """Write so many sent emails of one content, over the last thirty days, with attempts.

    They share one content: bodies may have been purged before the records, and no drain reads them.
    """
    template = _template(made)
    # Ids grow with time, as where people enqueue: a search by time reckons with it.
    moment = f"now() - ({rows} - g) * interval '30 days' / {rows}"
    made.run(
        _UNCHECKED,
        f"UPDATE outbox_email SET status = 'sent', due_at = NULL, finished_at = now()"
        f" WHERE id = {template}",
        _copies(
            made.runtime.tables.email,
            template,
            range(1, rows + 1),
            {"created_at": moment, "finished_at": moment, **_names("past"), **changes},
        ),
        _ATTEMPTS.format(template=template),
        _CHECKED,
    )
    settle(made)


def history(made: Ours, rows: int, *, days: int) -> None:
    """Write so many sent emails, the last one today, as years of work leave them behind.

    Each has an attempt, a content whose body was removed, and what the search finds it by.
    """
    template = _template(made)
    content = int(made.scalar(f"SELECT content_id FROM outbox_email WHERE id = {template}"))
    first = int(made.scalar("SELECT max(id) FROM outbox_content"))
    moment = f"now() - ({rows} - g) * interval '{days} days' / {rows}"
    gone = {"created_at": moment, "redacted_at": moment}
    bare = {"body": "''", "size": "0", "crc32": "0", "sha256": "NULL", "subject": "NULL"}
    sent = {
        "status": "'sent'", "due_at": "NULL", "finished_at": moment, "content_id": f"{first} + g",
        "headers": "''", **gone, **_names("past"),
    }  # fmt: skip
    tables = made.runtime.tables
    made.run(_UNCHECKED, "ALTER TABLE outbox_lookup DROP CONSTRAINT outbox_lookup_pkey", _CHECKED)
    for begun in range(1, rows + 1, _CHUNK):
        part = range(begun, min(begun + _CHUNK, rows + 1))
        before = int(made.scalar("SELECT max(id) FROM outbox_email"))
        made.run(
            _UNCHECKED,
            _copies(tables.content, content, part, {**gone, **bare}),
            _copies(tables.email, template, part, sent),
            _ATTEMPTS.format(template=before),
            lookups(above=before),
            _CHECKED,
        )
    made.run(
        "SET maintenance_work_mem = '1GB'",
        "ALTER TABLE outbox_lookup ADD CONSTRAINT outbox_lookup_pkey"
        " PRIMARY KEY (digest, email_id)",
    )
    settle(made)


def lookups(*, above: int = 0) -> str:
    """Return the statement that has the emails found whose id is above this one."""
    return _LOOKUPS.format(above=above)


def backlog(made: Ours, rows: int) -> None:
    """Write so many due emails, each with a content of its own."""
    template = _template(made)
    content = int(made.scalar(f"SELECT content_id FROM outbox_email WHERE id = {template}"))
    first = int(made.scalar("SELECT max(id) FROM outbox_content"))
    moment = "now() - interval '1 hour' + g * interval '1 hour' / " + str(rows)
    made.run(
        _UNCHECKED,
        _copies(made.runtime.tables.content, content, range(1, rows + 1), {"created_at": moment}),
        _copies(
            made.runtime.tables.email,
            template,
            range(1, rows + 1),
            {
                "content_id": f"{first} + g",
                "created_at": moment,
                "due_at": moment,
                **_names("backlog"),
            },
        ),
        _CHECKED,
    )
    settle(made)


def _template(made: Ours) -> int:
    made.enqueue([0])
    return int(made.scalar("SELECT max(id) FROM outbox_email"))


def _names(word: str) -> dict[str, str]:
    return {
        "recipient": f"'{word}-' || g || '@example.com'",
        "message_id": f"'<{word}-' || g || '@example.com>'",
    }


def _copies(table: Table, template: int, numbers: range, changes: Mapping[str, str]) -> str:
    """Return the statement that copies one row with changes; `g` is the number of a copy."""
    stored = [column for column in table.columns if column.computed is None]
    columns = [column.name for column in stored if column.name != "id"]
    values = ", ".join(changes.get(name, f't."{name}"') for name in columns)
    names = ", ".join(f'"{name}"' for name in columns)
    return (
        f"INSERT INTO {table.name} ({names}) SELECT {values}"
        f" FROM {table.name} t, generate_series({numbers[0]}, {numbers[-1]}) g"
        f" WHERE t.id = {template} ORDER BY g"
    )


def settle(made: Ours) -> None:
    """Vacuum and write a checkpoint, so that the fill's aftermath is not measured."""
    made.run(
        "VACUUM (ANALYZE) outbox_email",
        "VACUUM (ANALYZE) outbox_content",
        "VACUUM (ANALYZE) outbox_attempt",
        "VACUUM (ANALYZE) outbox_lookup",
        "CHECKPOINT",
    )
