"""How jobs, and the verbs that correct, change emails that are locked."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection

from ...domain.delivery.status import Status
from ...domain.jobs.order import Action
from ..connection.database import Database
from ..connection.list_parts import among
from ..connection.row_locks import Change, lock_ids
from ..queries import reports
from ..transitions import resolve as resolving
from ..transitions import retry as retrying
from ..transitions.cancel import withdraw_ids


class Changed(NamedTuple):
    """What was changed."""

    statuses: dict[int, Status]  # the new ones
    unknown: Sequence[int] = ()
    redacted: Collection[int] = ()  # left as they are
    expired: Collection[int] = ()  # likewise
    ended_anew: Collection[int] = ()  # likewise
    sent_again: Collection[int] = ()  # likewise


def change_of(action: Action, statuses: Collection[Status]) -> Change[Changed]:
    """Return what an action does to emails of these statuses.

    It changes those of the emails that may be changed. The caller has locked them.
    """
    match action:
        case Action.RETRY:
            return partial(retry, statuses=statuses)
        case Action.CANCEL:
            return cancel
    return partial(resolve, outcome=action.outcome)


def as_shown(
    work: Change[Changed], statuses: Collection[Status], since: datetime | None
) -> Change[Changed]:
    """Return the same work for a page that shows an email that ended with one of these statuses.

    It leaves the email if that has ended so `since` again: a person has not seen how. None: no page
    has shown anything.
    """
    if since is None:
        return work

    def change(connection: Connection, database: Database, ids: list[int]) -> Changed:
        email = database.tables.email.c
        ended = among(database, ids) & email.status.in_(statuses)
        newer = lock_ids(connection, database, ended & (email.finished_at != since))
        done = work(connection, database, [one for one in ids if one not in newer])
        return done._replace(ended_anew=newer)

    return change


def retry(
    connection: Connection, database: Database, ids: list[int], statuses: Collection[Status]
) -> Changed:
    """Send failed or unknown emails again.

    One that has come into doubt since it was read as failed is left: it may bring a second copy.
    """
    rows = retrying.retry(connection, database, ids, statuses)
    doubtful = [row.id for row in rows if row.unknown_count]
    changed = dict.fromkeys((row.id for row in rows), Status.PENDING)
    left = set(ids).difference(changed)
    if not left:
        return Changed(changed, doubtful)
    bare = retrying.redacted(connection, database, left, statuses)
    left -= bare
    over = retrying.expired(connection, database, left, statuses) if left else ()
    return Changed(changed, doubtful, bare, over)


def resolve(connection: Connection, database: Database, ids: list[int], outcome: Status) -> Changed:
    """Settle emails in doubt."""
    return Changed(resolving.resolve(connection, database, ids, outcome))


def cancel(connection: Connection, database: Database, ids: list[int]) -> Changed:
    """Withdraw emails that are not sent yet."""
    before = reports.statuses(connection, database, ids)
    withdraw_ids(connection, database, ids)
    after = reports.statuses(connection, database, ids)
    return Changed({id_: status for id_, status in after.items() if status is not before[id_]})
