"""An error of the app's own code within `enqueue_many` tells at which entry it was raised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.shop.shop import Shop, addresses, message, newsletter

pytestmark = pytest.mark.one_database("postgresql")

READERS = addresses(5)


class Broken(Exception):
    """What the app's own code raises."""


def fails_at(place: int, result: Any) -> Any:
    """Return a function that raises for the reader at this place."""

    def find(reader: object) -> Any:
        if READERS[place] in str(reader):
            raise Broken
        return result

    return find


def read(entries: list[Any], end: int) -> Iterator[Any]:
    yield from entries[:end]
    raise Broken


def note_of(shop: Shop, *given: Any, **options: Any) -> str:
    """Return the only note of the error that `enqueue_many` raises; nothing is written."""
    with shop.session() as session:
        with pytest.raises(Broken) as raised:
            shop.outbox.enqueue_many(*given, session=session, **options)
        session.commit()
    assert shop.statuses() == []
    [note] = raised.value.__notes__
    return note


def test_a_function_for_fields_or_a_header(shop: Shop) -> None:
    told = "outbox: at recipients[3], counted from 0"
    merged, fields = newsletter("Dear {{ name }}"), fails_at(3, {"name": "Ada"})
    assert note_of(shop, merged, READERS, fields=fields) == told
    assert note_of(shop, merged, iter(READERS), fields=fields, key=str) == told
    url = fails_at(3, "https://shop.example/u/1")
    assert note_of(shop, newsletter(), READERS, unsubscribe=url) == told


def test_a_function_for_keys(shop: Shop) -> None:
    told = note_of(shop, newsletter(), READERS, key=fails_at(2, "k"))
    assert told == "outbox: at recipients[2], counted from 0"
    told = note_of(shop, [message(one) for one in READERS], key=fails_at(2, "k"))
    assert told == "outbox: at messages[2], counted from 0"


@pytest.mark.parametrize("end", [0, 4])
def test_an_iterable(shop: Shop, end: int) -> None:
    told = f"outbox: at recipients[{end}], counted from 0"
    assert note_of(shop, newsletter(), read(READERS, end)) == told
    assert note_of(shop, newsletter(), read(READERS, end), key=str) == told
    messages = read([message(one) for one in READERS], end)
    assert note_of(shop, messages) == f"outbox: at messages[{end}], counted from 0"
