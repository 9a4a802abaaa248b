"""One operation of the store in two ways, over the same rows of one database.

The first is the database's own, the second the portable one, as an unknown database gets it.
Time stands still, so that what they write can be compared to the microsecond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, settings

from outbox.domain.delivery.status import FINISHED, LEASED, Status
from outbox.store.connection.database import Database
from outbox.store.connection.facts import Facts
from outbox.store.control.counter import summed
from outbox.store.schema.clock import utc
from tests.support.shop.shop import Shop, Shops

Result = TypeVar("Result")
Rows = dict[str, list[tuple[Any, ...]]]

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
OTHERS = UUID(int=2)  # the token of another worker's batch
_STANDS_STILL = (
    "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE"
    f" AS $$ SELECT timestamptz '{NOW.isoformat()}' $$"
)
_USED = (
    "content", "email", "recipient", "attempt", "tally", "lease", "counter", "bucket", "worker"
)  # fmt: skip
"""Tables that are filled and compared, in the order in which they refer to each other."""
_NEW = (("attempt", "id"), ("tally", "id"))


def examples(count: int) -> settings:
    """Return settings for so many examples, the same ones each time, however long they take."""
    return settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


def at(seconds: float) -> datetime:
    """Return the moment so many seconds from now."""
    return NOW + timedelta(seconds=seconds)


@dataclass(kw_only=True)
class Twins:
    """A shop on whose database it is `NOW` all the time, and the same as an unknown database."""

    shop: Shop
    portable: Database

    def fill(self, **rows: Sequence[Mapping[str, Any]]) -> None:
        """Empty the tables, and write these rows, by their tables."""
        self._fill(_USED, rows)

    def _fill(self, left: Sequence[str], rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        """Do so where only those that are `left` can have rows."""
        tables = self.shop.tables
        with self.shop.engine.begin() as connection:
            for name in reversed(left):
                connection.execute(sa.delete(getattr(tables, name)))
            for name in _USED:
                if chosen := rows.get(name):
                    connection.execute(sa.insert(getattr(tables, name)), list(chosen))

    def both(
        self, work: Callable[[Database], Result], **rows: Sequence[Mapping[str, Any]]
    ) -> list[tuple[Result, Rows]]:
        """Do `work` in both ways, each over these rows; return its results, and the rows after."""
        ways = [partial(work, database) for database in (self.shop.database, self.portable)]
        return self.each(ways, **rows)

    def each(
        self, ways: Iterable[Callable[[], Result]], **rows: Sequence[Mapping[str, Any]]
    ) -> list[tuple[Result, Rows]]:
        """Go each way over these rows; return its result, and the rows after it."""
        known = {row["token"] for row in rows.get("lease", ())}
        found: list[tuple[Result, Rows]] = []
        left: Sequence[str] = _USED
        for way in ways:
            self._fill(left, rows)
            result = way()
            found.append((result, _written(self.shop, known)))
            left = [name for name in _USED if found[-1][1][name]]
        return found


def open_twins(shops: Shops) -> Twins:
    """Open a shop whose database's clock stands still."""
    engine = _still(shops.url)
    shop = shops.open_on(engine)
    portable = Database(engine, shop.tables)
    portable.dialect, portable.facts = "unknown", Facts()
    with engine.connect() as connection:
        assert utc(connection.execute(sa.select(portable.now())).scalar_one()) == NOW
    return Twins(shop=shop, portable=portable)


def _still(url: str) -> sa.Engine:
    if sa.make_url(url).get_backend_name() != "postgresql":
        stands_still = f"SET timestamp = {NOW.timestamp()}"
        return sa.create_engine(url, connect_args={"init_command": stands_still})
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql(_STANDS_STILL)
    engine.dispose()
    path = "-c search_path=public,pg_catalog"  # ours is found before PostgreSQL's
    return sa.create_engine(url, connect_args={"options": path})


def _written(shop: Shop, known: set[UUID]) -> Rows:
    """Return all rows without new ids of the log and the tallies; tokens told by their emails.

    Of the counters it returns the sums.
    """
    read = _read(shop)
    emails: dict[UUID, list[int]] = {}
    for row in read["email"]:
        if row.token is not None and row.token not in known:
            emails.setdefault(row.token, []).append(row.id)

    def told(value: Any) -> Any:
        return tuple(emails.get(value, ["nobody"])) if _is_new(value, known) else value

    found: Rows = {}
    for name, rows in read.items():
        columns = enumerate(getattr(shop.tables, name).c)
        kept = [place for place, column in columns if (name, column.name) not in _NEW]
        found[name] = sorted((tuple(told(row[place]) for place in kept) for row in rows), key=repr)
    # A counter is the sum of its rows, and the new one has a name that nobody else could choose.
    counters = ((row.name, row.value) for row in read["counter"])
    found["counter"] = sorted(summed(counters).items())
    return found


def _read(shop: Shop) -> dict[str, Sequence[sa.Row[Any]]]:
    """Return all rows of the tables, each table in the order of its key, over one connection."""
    with shop.engine.connect() as connection:
        tables = {name: getattr(shop.tables, name) for name in _USED}
        reads = {name: sa.select(each).order_by(*each.primary_key) for name, each in tables.items()}
        return {name: connection.execute(each).all() for name, each in reads.items()}


def _is_new(value: Any, known: set[UUID]) -> bool:
    return isinstance(value, UUID) and value not in known


def content() -> dict[str, Any]:
    """Return the one content of all emails."""
    return {"id": 1, "size": 1, "crc32": 0, "sha256": None, "body": b"x", "created_at": at(-9000)}


def email(number: int, status: Status, **changes: Any) -> dict[str, Any]:
    """Return an email's row, as far as its status allows what is changed."""
    row = {
        "id": number, "content_id": 1, "due_at": None, "token": None, "unknown_token": None,
        "created_at": at(-5000 + number), "send_at": None, "expires_at": None, "finished_at": None,
        "size": 1, "priority": 1, "attempts": 0, "crashes": 0, "unknown_count": 0, "waited": 0,
        "recipients": 1, "status": status, "lane": "", "sender": "shop@shop.example",
        "recipient": "a@x.example", "message_id": f"<{number}@x.example>", "headers": b"",
    } | changes  # fmt: skip
    if status is not Status.PENDING:
        row["due_at"] = None
    elif row["due_at"] is None:
        row["due_at"] = row["created_at"]
    if status not in LEASED:
        row["token"] = None
    if status in FINISHED:
        row |= {"finished_at": at(-100), "unknown_count": 0}
    return row


def lease(token: UUID, **changes: Any) -> dict[str, Any]:
    """Return the row of a lease that holds."""
    return {
        "token": token, "priority": 1, "lane": "", "emails": 1, "claimed_at": at(-10),
        "expires_at": at(20), "started_at": at(-9), "worker": "host:1",
    } | changes  # fmt: skip
