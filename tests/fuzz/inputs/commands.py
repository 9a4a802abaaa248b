"""A command ends with 0, 1 or 2 and never with a traceback, and steers no terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from click.testing import Result
from hypothesis import strategies as st

from outbox import Status
from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.transaction import Reply, Verdict
from tests.fuzz.campaign import Property
from tests.fuzz.inputs.texts import ANY, HOSTILE, around
from tests.support.shop.shop import Shop, Shops, entry, message

FAR = datetime(2200, 1, 1, tzinfo=UTC)
EVIL = "evil\x1b[2J\u202e\x07"

_NUMBERS = st.sampled_from(["1", "2", "3", "4", "0", "-1", "1e3", "9" * 18, "9" * 19, "9" * 5000])
IDS = st.one_of(_NUMBERS, st.integers().map(str), around("1", "2"))
SECONDS = st.one_of(
    st.sampled_from(["0", "nan", "inf", "-inf", "1e308", "1e18", "1e10", "-0.0", "1_0", "٣"]),
    st.floats().map(str),
    ANY,
)
WORDS = around("t", "k", "failed", "unknown", "bulk", "all", "a@x.example", "--json", "--", "-")
FLAGS = st.sampled_from(
    ["--json", "--status", "--tag", "--limit", "--as", "--id", "--key", "--days", "--reason",
     "--remove", "--max-age", "--help", "--jsonn", "-h", "--tag=", "--id=1", "--status=failed"],
)  # fmt: skip
COMMANDS = ["stats", "list", "show", "retry", "resolve", "cancel", "sweep", "drain", "pause",
            "resume", "purge", "suppress", "check", "health", "progress"]  # fmt: skip

_LIKELY: dict[str, list[st.SearchStrategy[Any]]] = {
    "list": [st.tuples(st.just("--tag"), WORDS), st.tuples(st.just("--limit"), IDS)],
    "progress": [st.tuples(st.just("--tag"), WORDS)],
    "show": [st.tuples(IDS)],
    "retry": [st.lists(IDS, max_size=3), st.tuples(st.just("--status"), WORDS)],
    "resolve": [
        st.lists(IDS, max_size=2),
        st.tuples(st.just("--as"), st.sampled_from(["sent", "failed", "pending", ""])),
    ],
    "cancel": [st.tuples(st.sampled_from(["--key", "--tag", "--id"]), WORDS | IDS)],
    "purge": [st.tuples(st.just("--days"), SECONDS)],
    "health": [st.tuples(st.just("--max-age"), SECONDS)],
    "suppress": [
        st.tuples(around("a@x.example", "jö@bücher.example")),
        st.tuples(st.just("--reason"), HOSTILE),
        st.just(["--remove"]),
    ],
    "pause": [st.tuples(WORDS)],
    "resume": [st.tuples(WORDS)],
}


@st.composite
def calls(draw: st.DrawFn) -> list[str]:
    """A command with arguments that it may expect, or with any."""
    command = draw(st.sampled_from(COMMANDS))
    words: list[str] = []
    for part in _LIKELY.get(command, []):
        if draw(st.booleans()):
            words += draw(part)
    words += (
        draw(st.lists(FLAGS | WORDS | IDS | HOSTILE, max_size=2)) if draw(st.booleans()) else []
    )
    return [command, *words]


@contextmanager
def properties(url: str) -> Iterator[list[Property]]:
    """Open a shop with an email in each of several states, full of evil texts."""
    shops = Shops(url=url)
    try:
        yield [Property(source="CLI arguments", inputs=calls(), holds=_Shell(shops.open()).holds)]
    finally:
        shops.close()


_STEERS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e]")


class _Shell:
    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._dirty = True
        self._before: Any = None

    def holds(self, words: list[str]) -> None:
        if self._dirty:
            self._refill()
        told = self._shop.count(self._shop.tables.audit)
        result = self._shop.app.test_cli_runner().invoke(args=["outbox", *words])
        after = self._dump()
        if result.exit_code == 2:
            assert self._shop.count(self._shop.tables.audit) == told, "a wrong call is in the audit"
        self._dirty = after != self._before
        _ended_well(result)
        # A drain that finds its server gone says so, and has opened its breaker.
        if result.exit_code != 0 and words[0] != "drain":
            assert not self._dirty, "it failed and changed something"
        # Of a wrong call Click repeats what the caller typed. The rest was stored by strangers.
        assert result.exit_code == 2 or not _STEERS.search(result.output)

    def _refill(self) -> None:
        """Empty the tables, and write an email that waits, one that failed, and one in doubt."""
        with self._shop.engine.begin() as connection:
            for table in reversed(self._shop.tables.email.metadata.sorted_tables):
                connection.execute(sa.delete(table))
        for status in (Status.FAILED, Status.UNKNOWN):
            self._ended(status)
        self._shop.enqueue("a\u202eb@x.example", key="k", tag="t", send_at=FAR)
        self._before = self._dump()

    def _ended(self, status: Status) -> None:
        with self._shop.session() as session:
            mail = message("a\u202eb@x.example", "c@x.example", subject="evil \u202e")
            row = self._shop.outbox.enqueue(mail, session=session, tag="evil")
            session.commit()
        made = self._shop.sending(row.id)
        reply = Reply(code=550, text=EVIL)
        end = Outcome(status=status, reply=reply, unknown_total=int(status is Status.UNKNOWN))
        self._shop.record(made.token, [entry(row.id, end, Verdict.FAIL)])

    def _dump(self) -> dict[str, list[Any]]:
        """Every row but those of the audit, which also tells who tried what in vain."""
        every = self._shop.tables.email.metadata.sorted_tables
        tables = [table for table in every if table.name != "outbox_audit"]
        return {table.name: [tuple(row) for row in self._shop.rows(table)] for table in tables}


def _ended_well(result: Result) -> None:
    assert result.exit_code in (0, 1, 2)
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(
        result.exception
    )
    assert result.exit_code == 0 or result.output, "it failed and said nothing"
    assert "Traceback" not in result.output
