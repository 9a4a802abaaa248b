"""Whatever stands in the tables, no command prints what steers a terminal."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from outbox.store.control import suppression
from tests.support.shop.shop import Shop, Shops, sent

pytestmark = pytest.mark.one_database("mariadb")

BELL = "\x07\x9b2J\u202e\r"
"""Controls that click leaves in a line, unlike the sequences of colours, and one that turns it."""

COMMANDS = (
    ("stats",),
    ("list",),
    ("show", "1"),
    ("show", "2"),
    ("check",),
    ("health",),
    ("suppress",),
    ("drain",),
)


def spoil(shop: Shop) -> None:
    """Put controls into every text that a command reads."""
    tables = shop.tables
    texts = {
        tables.email: ("recipient", "sender", "message_id", "key", "tag", "lane"),
        tables.recipient: ("reply", "enhanced", "address"),
        tables.attempt: ("reply", "enhanced", "worker", "server", "verdict", "phase"),
        tables.suppression: ("address", "reason"),
        tables.counter: ("name",),
    }
    with shop.engine.begin() as connection:
        for table, names in texts.items():
            values = {name: table.c[name].concat(BELL) for name in names}
            connection.execute(sa.update(table).values(**values))
        now = datetime.now(UTC)
        row = {
            "state": "open",
            "cause": "session",
            "failures": 1,
            "opened_at": now,
            "retry_at": now,
            "alert": True,
            "reason": BELL,
        }
        connection.execute(sa.insert(tables.breaker).values(server=f"mx{BELL}", **row))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_prints_a_control_of_a_strangers(shops: Shops, command: tuple[str, ...]) -> None:
    shop = shops.open()
    for to in (("a@x.example", "b@x.example"), ("c@x.example",)):
        made = shop.sending(shop.enqueue(*to, key=to[0], tag="t").id)
        shop.record(made.token, [sent(shop.rows(shop.tables.email)[-1].id)])
    shop.record(made.token, [sent(99)])
    shop.database.run(lambda c: suppression.suppress(c, shop.database, "d@x.example", "asked"))
    spoil(shop)
    result = shop.app.test_cli_runner().invoke(args=["outbox", *command])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    printed = result.output.replace("\n", "")
    assert printed
    assert printed.isprintable()
