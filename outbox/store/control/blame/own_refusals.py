"""Finds that refusals alike are the emails' own: the server takes others in between."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import Any

from sqlalchemy import select

from ....domain.delivery.refusal_fingerprint import is_like, may_be_own
from ....domain.delivery.transaction import Phase, Verdict
from ...connection.database import Database
from ...schema.clock import utc
from .attempts import newest
from .comparison import OTHERS, refusal_in

SURER = 10
"""So many times as many emails show that a server is at fault, where it refused some like this just
now and took others in between."""

SHOWN = 900.0
"""Seconds for which an email that was taken behind a refusal counts."""

LAST_TAKEN = 10.0
"""Seconds within which it must have taken an email. So a server that takes none any more is halted
soon, whatever it did before: by emails that were not refused before."""

AT_ONCE = timedelta(seconds=2)
"""An email that was taken so soon behind a refusal shows that the refused one is to blame. A quota
that frees a place now and then seldom does so just then."""


def are_own(
    database: Database,
    server: str,
    refusal: str,
    *,
    seen: int = 0,
    any_fresh: bool = True,
    in_any_words: bool = False,
) -> bool:
    """Return whether this server refuses some emails like this just now, and takes others.

    So many emails that were taken behind such a refusal the caller has `seen` itself. Unless
    `any_fresh` is among those in question, all of them were refused before: they tell nothing new
    of the server, however long ago it took another one. With `in_any_words` the refusals in
    question had different words, so those in the log may have, too.
    """
    if not may_be_own(refusal):
        return False
    attempt = database.tables.attempt.c
    lately = attempt.finished_at > database.now(-SHOWN)
    found = newest(database, server, lately, attempt.finished_at < database.now(SHOWN)).c
    is_new = (found.finished_at > database.now(-LAST_TAKEN)).label("is_new")
    columns = (
        found.started_at, found.finished_at, found.verdict, found.phase, found.code,
        found.enhanced, found.reply, is_new,
    )  # fmt: skip
    statement = select(*columns).order_by(found.started_at, found.id)
    rows = database.read(lambda connection: connection.execute(statement).all())
    takes_some = seen or any(row.is_new for row in rows if row.verdict == Verdict.SENT)
    if any_fresh and not takes_some:
        return False
    is_such = partial(is_like if in_any_words else str.__eq__, refusal)
    return seen + _turns(rows, is_such) >= OTHERS


def _turns(rows: Iterable[Any], is_such: Callable[[str | None], bool]) -> int:
    """Count the emails that were taken at once behind a refusal, in the order of their tries."""
    turns, refused_at = 0, None
    for row in rows:
        if row.verdict == Verdict.SENT:
            if refused_at is not None:
                is_behind = refused_at <= utc(row.started_at) <= refused_at + AT_ONCE
                turns, refused_at = turns + is_behind, None if is_behind else refused_at
        elif row.verdict in (Verdict.FAIL, Verdict.RETRY) and (
            is_such(refusal_in(Phase(row.phase), row))
        ):
            refused_at = utc(row.finished_at)
    return turns
