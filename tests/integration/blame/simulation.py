"""Days of an outbox in simulated time: its own sweeps and relays, and jumps to what comes next."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import Any

import sqlalchemy as sa

from outbox.store.records import Claim
from outbox.store.schema.clock import MOMENT, utc
from outbox.worker.batch.send_batch import send_batch
from outbox.worker.drain import drain
from outbox.worker.sweep import sweep
from tests.support.shop.shop import Shop

HOT = 400
"""Batches at one moment from which on it is a loop that does not end by itself."""

IDLE = 60.0
"""Seconds after which a server closes an idle connection."""

_FIRST_STEP, _NEAR, _FAR = 1.0, 30.0, 3600.0
"""Seconds."""

_RECOVERY = 10.0
"""Seconds after an outage in which a server takes less than all."""

_BEAT = 1.0
"""Seconds from sweep to sweep."""

_PAST = {"outbox_attempt", "outbox_content", "outbox_recipient", "outbox_suppression"}
"""Tables that tell of no moment to come."""


class HostClock:
    """This host's monotonic clock: it runs by itself, and jumps with the database's."""

    def __init__(self) -> None:
        self._skipped = 0.0

    def now(self) -> float:
        return time.monotonic() + self._skipped

    def skip(self, seconds: float) -> None:
        self._skipped += seconds


HOST = HostClock()
"""The clock of the batches, and of the SMTP connections."""


@dataclass(kw_only=True)
class Simulation:
    """One shop whose time jumps. `claims` counts the batches that were handed out."""

    shop: Shop
    threads: int = 1  # relays at a time
    claims: int = 0
    _at_once: int = 0
    _step: float = _FIRST_STEP

    def __post_init__(self) -> None:
        self._began = self.now()
        self.shop.runtime.clock = HOST.now

    def now(self) -> datetime:
        """Return the database's time: it runs on this host, and is asked often."""
        return datetime.now(UTC) + timedelta(seconds=self.shop.database.offset)

    @property
    def passed(self) -> float:
        """Simulated seconds since the beginning."""
        return (self.now() - self._began).total_seconds()

    def run(self, *, seconds: float, gives_up: float) -> None:
        """Go on until every email has ended, or so much time has passed.

        It ends early where an email of the tag "good" is not sent after `gives_up` seconds.
        """
        while True:
            before = self.claims
            self._send()
            looks = self._look(gives_up)
            if not looks["left"].number or looks["late"].number or self.passed > seconds:
                return
            self._jump(looks, worked=self.claims > before)

    def _send(self) -> None:
        """Send until nothing is due that may go now, as `drain` does."""
        self._at_once = 0
        if self.threads == 1:
            drain(self.shop.runtime, progress=self._note)
            return
        with ThreadPoolExecutor(self.threads) as pool:
            goes_on = True
            while goes_on:
                made: list[Claim] = []
                sweep(self.shop.runtime, made.append)
                for claim in made:
                    self._note(claim.emails)
                tokens = [claim.token for claim in made]
                reports = list(pool.map(partial(send_batch, self.shop.runtime), tokens))
                goes_on = any(report.is_worth_a_sweep for report in reports)

    def _note(self, _: int) -> None:
        self.claims += 1
        self._at_once += 1
        assert self._at_once < HOT, "claimed and given back without end"

    def _look(self, gives_up: float) -> dict[str, sa.Row[Any]]:
        now = self.now()
        values = {
            "now": now,
            "late": now - timedelta(seconds=gives_up),
            "lately": now - timedelta(seconds=_RECOVERY),
        }
        rows = self.shop.database.read(lambda c: c.execute(self._statement, values).all())
        return {row.what: row for row in rows}

    def _jump(self, looks: dict[str, sa.Row[Any]], *, worked: bool) -> None:
        """Go to the next moment that a row names; by steps where emails wait for none that is near.

        A server that has just recovered takes more from second to second, and no row says so.
        """
        now = self.now()
        moments = [utc(row.moment) for row in looks.values() if row.moment is not None]
        seconds = min(((moment - now).total_seconds() for moment in moments), default=_FAR)
        self._step = _FIRST_STEP if worked else min(self._step * 4, _FAR)
        if looks["waiting"].number and (seconds > _NEAR or looks["recovering"].number):
            seconds = min(seconds, self._step)
        self.pass_time(max(0.0, seconds) + _BEAT)

    def pass_time(self, seconds: float) -> None:
        """Let time pass in which nothing happens; what is idle for long is closed."""
        self.shop.later(seconds)
        HOST.skip(seconds)
        if seconds > IDLE:
            self.shop.runtime.disconnect()

    @cached_property
    def _statement(self) -> Any:
        """What is left, what is late, what waits; and of each column the next moment to come.

        It asks the tables which columns have moments: it need not know what they are for.
        """
        tables = self.shop.tables
        email, server = tables.email, tables.server
        now, late, lately = (sa.bindparam(name, type_=MOMENT) for name in ("now", "late", "lately"))
        unfinished = email.c.finished_at.is_(None)
        since = sa.func.coalesce(email.c.send_at, email.c.created_at)
        counts = {
            "left": (email, unfinished),
            "late": (email, unfinished & (email.c.tag == "good") & (since < late)),
            "waiting": (email, (email.c.status == "pending") & (email.c.due_at <= now)),
            "recovering": (server, server.c.recovered_at > lately),
        }
        nothing = sa.cast(sa.null(), MOMENT).label("moment")
        found = [
            sa.select(sa.literal(what).label("what"), sa.func.count().label("number"), nothing)
            .select_from(table)
            .where(which)
            for what, (table, which) in counts.items()
        ]
        for column in self._columns():
            what = sa.literal(str(column))
            coming = sa.select(what, sa.literal(0), sa.func.min(column)).where(column > now)
            found.append(coming.where(unfinished) if column.table is email else coming)
        return sa.union_all(*found)

    def _columns(self) -> Iterator[sa.Column[Any]]:
        for name, table in self.shop.tables.email.metadata.tables.items():
            if name.startswith("outbox_") and name not in _PAST:
                yield from (c for c in table.c if isinstance(c.type, sa.DateTime))
