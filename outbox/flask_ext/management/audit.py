"""What a verb that changes something leaves in the audit, and the verb that reads it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from ...domain.config.enqueue_options import check_name
from ...store.connection.database import Database
from ...store.connection.row_locks import Change
from ...store.control import audit
from ...store.report_records import AuditEntry
from ...store.schema.audit_tables import WHO_LENGTH
from .arguments import limit_of, one_id
from .results import Reason, Unchanged

if TYPE_CHECKING:
    from ...worker.process.runtime import Runtime

MOST_NAMED = 50
"""The most ids that an entry names."""

_UNCHANGED = "unchanged: "


class ActOutcome(StrEnum):
    """What came of an act on one email."""

    DONE = "done"
    LOCKED = "locked"  # nothing was changed: another transaction held the email
    UNCHANGED = "unchanged"  # the act came too late


def unchanged(why: object) -> str:
    """Return the result of an act that changed nothing."""
    return f"{_UNCHANGED}{why}"


def outcome_of(entry: AuditEntry) -> ActOutcome:
    """Return what came of an act on one email; its result is stored in words."""
    if entry.result == unchanged(Reason.LOCKED):
        return ActOutcome.LOCKED
    return ActOutcome.UNCHANGED if entry.result.startswith(_UNCHANGED) else ActOutcome.DONE


def why_unchanged(entry: AuditEntry) -> str:
    """Return why an act changed nothing."""
    return entry.result.removeprefix(_UNCHANGED)


def copied_as(email_id: int) -> str:
    """Return the result of an act that enqueued an email's content as this new one."""
    return f"enqueued as {email_id}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Act:
    """An action that will be in the audit: who does it, and to what."""

    who: str
    action: str
    what: Mapping[str, Any]

    def note(
        self, connection: Connection, database: Database, result: str, email_id: int | None = None
    ) -> None:
        """Write the entry into the transaction of the action."""
        audit.note(
            connection,
            database,
            who=self.who,
            action=self.action,
            what=self.what,
            result=result,
            email_id=email_id,
        )

    def note_emails(
        self,
        connection: Connection,
        database: Database,
        changed: Mapping[int, str],
        left: Collection[Unchanged],
    ) -> None:
        """Write the entry of an action on these emails; one email is named in a column."""
        ids = sorted({*changed, *(one.id for one in left)})
        if len(ids) == 1:
            found = list(changed.values()) or list(map(unchanged, left))
            self.note(connection, database, str(found[0]), ids[0])
        elif ids:
            act = Act(who=self.who, action=self.action, what={**self.what, **_named(ids)})
            act.note(connection, database, _counted(changed, len(left)))


def act_of(by: Any, action: str, **what: Any) -> Act | None:
    """Return the act of the person `by`; None: nobody asked for an entry."""
    who = check_name("by", by, WHO_LENGTH)
    if who is None:
        return None
    return Act(who=who, action=action, what={k: v for k, v in what.items() if v is not None})


def noted(work: Change[int], act: Act | None, done: str) -> Change[int]:
    """Return the same work, which leaves an entry in the audit for each of its transactions."""

    def change(connection: Connection, database: Database, ids: list[int]) -> int:
        changed = work(connection, database, ids)
        if act is not None:
            act.note(connection, database, f"{changed} {done}")
        return changed

    return change


def end_of(runtime: Runtime) -> int:
    """Return the id of the newest entry; 0: there is none."""
    return runtime.database.read(lambda c: audit.end(c, runtime.database))


def sum_since(runtime: Runtime, act: Act, after: int) -> tuple[int, int]:
    """Return how many emails an act in parts has changed since that entry, and how many otherwise.

    An entry says this in words, such as `3 cancelled, 1 unknown`.
    """
    database = runtime.database
    results = database.read(
        lambda c: audit.results_since(
            c, database, after=after, who=act.who, action=act.action, what=act.what
        )
    )
    numbers = [[int(one) for one in re.findall(r"\d+", result)] for result in results]
    return sum(sum(one[:1]) for one in numbers), sum(sum(one[1:]) for one in numbers)


def entries(runtime: Runtime, *, limit: Any, before: Any, email: Any) -> tuple[AuditEntry, ...]:
    """Return the newest entries first."""
    database, most = runtime.database, limit_of(limit)
    first = None if before is None else one_id(before)
    only = None if email is None else one_id(email)
    return database.read(
        lambda c: audit.entries(c, database, limit=most, before=first, email_id=only)
    )


def _named(ids: Collection[int]) -> dict[str, Any]:
    if len(ids) <= MOST_NAMED:
        return {"ids": list(ids)}
    return {"emails": len(ids), "first": min(ids), "last": max(ids)}


def _counted(changed: Mapping[int, str], left: int) -> str:
    """Return how many emails have each status now, such as `3 pending, 1 unchanged`."""
    counts = Counter(map(str, changed.values()))
    told = [f"{count} {status}" for status, count in sorted(counts.items())]
    return ", ".join([*told, f"{left} unchanged"] if left else told)
