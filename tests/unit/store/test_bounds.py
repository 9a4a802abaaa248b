"""Every number that the outbox accepts fits the column that keeps it."""

from __future__ import annotations

from dataclasses import fields

import pytest
from sqlalchemy import MetaData, SmallInteger

from outbox.domain.config.settings import MOST_TRIES, Settings
from outbox.domain.config.typed_values import MOST
from outbox.domain.delivery.outcome import MAX_UNKNOWN
from outbox.domain.figures.histogram import BOUNDS
from outbox.domain.header.address import MAX_RECIPIENTS
from outbox.domain.priority import Priority
from outbox.smtp.reply_reader import parse_line
from outbox.store.schema.tables import define

SMALL = 2**15 - 1
MOSTS = {field.name: field.metadata["most"] for field in fields(Settings)}
TABLES = define(MetaData())

LARGEST = {
    "outbox_email.priority": max(Priority),
    "outbox_email.attempts": MOSTS["max_attempts"] + 1,  # a doubt is charged, too
    "outbox_email.crashes": MOSTS["max_crashes"] + 1,
    "outbox_email.unknown_count": MAX_UNKNOWN + 1,
    "outbox_email.max_attempts": MOST_TRIES,
    "outbox_email.recipients": MAX_RECIPIENTS,
    "outbox_recipient.position": MAX_RECIPIENTS,
    "outbox_recipient.code": abs(parse_line(b"599 no")[0]),
    "outbox_attempt.code": abs(parse_line(b"599 no")[0]),
    "outbox_instance.id": 1,
    "outbox_lease.priority": max(Priority),
    "outbox_purge.id": 1,
    **{f"{table}.priority": max(Priority) for table in ("outbox_tally", "outbox_stat")},
    **{f"{table}.code": abs(parse_line(b"599 no")[0]) for table in ("outbox_tally", "outbox_stat")},
    **{f"{table}.bin": len(BOUNDS) for table in ("outbox_tally", "outbox_stat")},
}


def test_the_largest_value_of_every_small_column_is_known() -> None:
    small = {
        f"{table.name}.{column.name}"
        for table in TABLES.email.metadata.tables.values()
        for column in table.columns
        if isinstance(column.type, SmallInteger)
    }
    assert small == set(LARGEST)


@pytest.mark.parametrize("column", LARGEST)
def test_it_fits(column: str) -> None:
    assert LARGEST[column] <= SMALL


def test_sizes_fit_theirs() -> None:
    assert max(MOSTS["max_size"], MOSTS["batch"], MOST) <= 2**31 - 1
