"""failed → pending, uncharged: refusals that turned out to be the server's own fault.

A worker sees only after several emails that a server refuses every one. Until then it and the other
workers have charged refusals. They are found in the attempt log and taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import starmap, takewhile
from math import ceil
from typing import Any

from sqlalchemy import Connection, Row, func, select, update

from ...domain.delivery.blame import Common
from ...domain.delivery.breaker_timing import Cause
from ...domain.delivery.outcome import RecipientStatus
from ...domain.delivery.refusal_fingerprint import is_like, reason, words_for_people
from ...domain.delivery.refusal_streak import Refused, are_enough, are_many
from ...domain.delivery.reply_table import judge
from ...domain.delivery.status import Status
from ...domain.delivery.transaction import Phase, Verdict
from ...domain.scheduling import backoff
from ..connection.database import Database
from ..connection.list_parts import among, parts
from ..connection.row_locks import lock_ids
from ..control import circuit_breaker
from ..control.blame.attempts import newest
from ..control.blame.comparison import contents_taken, refusal_in, reply_in
from ..control.blame.own_refusals import SURER, are_own
from ..control.counter import RESTORED
from ..end_emails import forget_end
from ..records import traits_of
from ..rollup.tally import count_taken_back

_CHARGED = frozenset({Verdict.RETRY, Verdict.FAIL})


def uncharge(database: Database, server: str, refusal: str, *, lifetime: float) -> int:
    """Take back the charged refusals that are like this one since the server last took an email.

    They are in whatever words: see `is_like`. What is about a recipient alone stands, such as an
    unknown mailbox.

    Failed emails become pending again, behind the others, unless their `lifetime` in seconds is
    over. Deferred emails keep their due time. Both get their attempt back. In the log such an
    attempt becomes a `halt`, so that it is taken back only once. Emails that a person, a purge, a
    new claim or a later verdict has taken meanwhile do not change. Returns how many attempts were
    taken back.

    Recipients of an email that waits are written to again, if they were refused alike before the
    server hung up, or in a part of the email whose rest was put aside.
    """

    def work(connection: Connection) -> int:
        tail = _tail(connection, database, server)
        several = {row.email_id for row in tail if row.recipients > 1}
        _write_again(connection, database, refusal, several)
        alike = [row for row in tail if is_like(_refusal(row), refusal)]
        charged = [r for r in alike if r.verdict in _CHARGED and not _is_over(r, lifetime)]
        # In the order of ids, and without waiting: locked rows are passed over.
        ids = among(database, {row.email_id for row in charged})
        ids &= database.tables.email.c.redacted_at.is_(None)  # nothing is left that could be sent
        free = lock_ids(connection, database, ids) if charged else frozenset()
        ours = [row for row in charged if row.email_id in free]
        marked = [row for row in ours if _mark_uncharged(connection, database, row)]
        for row in sorted(marked, key=lambda row: int(row.email_id)):
            _take_back(connection, database, row)
        count_taken_back(connection, database, [row._asdict() for row in marked])
        return len(marked)

    return database.run(work)


def review(
    database: Database,
    server: str,
    refusal: str,
    *,
    needed: int,
    lifetime: float,
    outsider_tells: Callable[[Common], bool],
    opened: Callable[[], None],
) -> bool:
    """Return whether refusals in the log, of all workers, show that the server is at fault.

    A batch that saw such refusals, but too few to decide, calls this at its end. If the log has
    `needed` equal ones since the server last took an email, or more in any words, the breaker opens
    with an alert, and `opened` is called if nobody had opened it. Then, or if it is already open
    for such a refusal, the refusals are taken back.

    Whether they are enough, `are_enough` and `are_many` say. Refusals for only one recipient domain
    are that domain's fault. Refusals of only one sender may be that sender's, if another sender's
    email was accepted lately or waits (`outsider_tells`). Emails are to blame themselves if the
    server takes others in between (`are_own`): then `SURER` times as many are needed, of emails
    that were refused for the first time.
    """

    def shows(words: str | None, rows: Sequence[Row[Any]]) -> bool:
        common = Common.of(map(traits_of, rows))
        if common.domains:
            return False
        fresh = len({row.email_id for row in rows if not row.waited})
        own = partial(are_own, database, server, words or refusal, in_any_words=words is None)
        if fresh < SURER * needed and own(any_fresh=bool(fresh)):
            return False
        return not outsider_tells(common)

    if not is_like(circuit_breaker.refusal(database, server), refusal):
        tail = database.read(lambda connection: _tail(connection, database, server))
        alike = _alike(tail, refusal)
        if not any(
            starmap(shows, _enough(alike, needed, partial(contents_taken, database, server)))
        ):
            return False
        if _trip(database, server, alike):
            opened()
    uncharge(database, server, refusal, lifetime=lifetime)
    return True


def _alike(tail: Sequence[Row[Any]], refusal: str) -> dict[str, list[Row[Any]]]:
    """Return the attempts that met a refusal like this one, by fingerprint; the newest first."""
    found: dict[str, list[Row[Any]]] = {}
    for row in tail:
        if (met := _refusal(row)) is not None and is_like(met, refusal):
            found.setdefault(met, []).append(row)
    return found


def _enough(
    alike: Mapping[str, list[Row[Any]]],
    needed: int,
    were_taken: Callable[[str, Collection[int]], Collection[int]],
) -> Iterator[tuple[str | None, list[Row[Any]]]]:
    """Yield attempts that are so many that the server may be at fault; in any words with None."""
    for words, rows in alike.items():
        if are_enough(_refused(rows), needed, partial(were_taken, words)):
            yield words, rows
    if len(alike) > 1:
        every = [row for rows in alike.values() for row in rows]
        if are_many(_refused(every), needed, partial(were_taken, next(iter(alike)))):
            yield None, every


def _refused(rows: Sequence[Row[Any]]) -> set[Refused]:
    return {
        Refused(row.recipient, row.content_id if row.phase == Phase.DOT else None) for row in rows
    }


def _trip(database: Database, server: str, alike: Mapping[str, list[Row[Any]]]) -> bool:
    """Open the breaker for the newest of these refusals; return whether that is news."""
    refusal, (newest, *_) = next(iter(alike.items()))
    words = words_for_people(Phase(newest.phase), reply_in(newest))
    return circuit_breaker.trip(
        database, server, cause=Cause.EMAILS, reason=reason(words, several=len(alike) > 1),
        alert=True, refusal=refusal, suspect_id=newest.email_id,
    )  # fmt: skip


def _tail(connection: Connection, database: Database, server: str) -> list[Row[Any]]:
    """Return the newest attempts on the server, back to the first that took an email.

    None is from before a restore.
    """
    email, mark = database.tables.email.c, database.tables.counter.c
    restored = select(mark.value).where(mark.name == RESTORED).scalar_subquery()
    later = database.tables.attempt.c.id > func.coalesce(restored, 0)
    found = newest(database, server, later)
    statement = (
        select(
            found,
            email.sender,
            email.recipient,
            email.size,
            email.content_id,
            email.recipients,
            email.waited,
            email.expires_at,
            email.lane,
            email.priority,
        )
        .join_from(found, database.tables.email, email.id == found.c.email_id)
        .order_by(found.c.id.desc())
    )
    rows = connection.execute(statement).all()
    return list(takewhile(lambda row: row.verdict != Verdict.SENT, rows))


def _refusal(row: Row[Any]) -> str | None:
    """Return the fingerprint of the refusal that the server gave to this email; None: of none.

    The log has a halt where it was taken back, and a suspicion where the server hung up behind it.
    """
    phase = Phase(row.phase)
    refusal = refusal_in(phase, row)
    return refusal if refusal and judge(phase, reply_in(row)).verdict in _CHARGED else None


def _write_again(
    connection: Connection, database: Database, refusal: str, emails: Collection[int]
) -> None:
    """Have those emails that wait go also to the recipients whom the server refused alike."""
    if not emails:
        return
    email, table = database.tables.email.c, database.tables.recipient
    waits = among(database, emails) & (email.status == Status.PENDING)
    failed = (table.c.status == RecipientStatus.FAILED) & (table.c.code.is_not(None))
    again = update(table).values(status=RecipientStatus.PENDING)
    for ours in parts(sorted(lock_ids(connection, database, waits))):
        found = select(table).where(table.c.email_id.in_(ours), failed)
        for row in connection.execute(found).all():
            if is_like(refusal_in(Phase.RCPT, row), refusal):
                this = (table.c.email_id == row.email_id) & (table.c.position == row.position)
                connection.execute(again.where(this))


def _mark_uncharged(connection: Connection, database: Database, row: Row[Any]) -> bool:
    """Mark the attempt as uncharged; return False if another worker did so first."""
    table = database.tables.attempt
    marked = (
        update(table)
        .where(table.c.id == row.id, table.c.verdict == row.verdict)
        .values(verdict=Verdict.HALT)
    )
    return connection.execute(marked).rowcount == 1


def _is_over(row: Row[Any], lifetime: float) -> bool:
    """Whether the email's lifetime is used up, so that its refusal stands."""
    return row.expires_at is None and row.waited + backoff.behind(row.waited) >= lifetime


def _take_back(connection: Connection, database: Database, row: Row[Any]) -> None:
    email, recipient = database.tables.email, database.tables.recipient
    attempt = database.tables.attempt.c
    ours = (email.c.id == row.email_id) & (email.c.attempts > 0)
    attempts = {"attempts": email.c.attempts - 1}
    # What came after this attempt made it fail: another server's verdict, or a person's.
    later = select(attempt.id).where(attempt.email_id == row.email_id, attempt.id > row.id)
    failed = update(email).where(ours, email.c.status == Status.FAILED, ~later.exists())
    wait = backoff.behind(row.waited)
    back = {
        "status": Status.PENDING, "due_at": database.now(wait), "finished_at": None,
        "waited": email.c.waited + ceil(wait),
    }  # fmt: skip
    if not connection.execute(failed.values(**back, **attempts)).rowcount:
        waiting = update(email).where(ours, email.c.status == Status.PENDING)
        connection.execute(waiting.values(**attempts))
        return
    forget_end(connection, database, [row.email_id])
    if row.recipients > 1:
        refused = (
            (recipient.c.email_id == row.email_id)
            & (recipient.c.status == RecipientStatus.FAILED)
            & (recipient.c.code == row.code)
            & (recipient.c.enhanced == row.enhanced)
        )
        connection.execute(update(recipient).where(refused).values(status=RecipientStatus.PENDING))
