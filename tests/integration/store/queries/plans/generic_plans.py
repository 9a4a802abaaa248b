"""How PostgreSQL plans what a piece of work asks, when it plans without the values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import event

from tests.support.shop.shop import Shop

Look = Callable[[Shop], object]


def plans(shop: Shop, look: Look) -> list[dict[str, Any]]:
    """Return the plan of every statement of a look, as it is made for any values."""
    seen = statements(shop, look)
    with shop.engine.connect() as connection:
        explained = (f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {numbered(each)}" for each in seen)
        return [connection.exec_driver_sql(text).scalar_one()[0]["Plan"] for text in explained]


def statements(shop: Shop, look: Look) -> list[str]:
    """Return the text of every statement of a look."""
    seen: list[str] = []

    def note(conn: object, cursor: object, statement: str, *rest: object) -> None:
        seen.append(statement)

    event.listen(shop.engine, "before_cursor_execute", note)
    look(shop)
    event.remove(shop.engine, "before_cursor_execute", note)
    return seen


def numbered(statement: str) -> str:
    """Write the driver's parameters as PostgreSQL's own."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", statement)))
    return re.sub(r"%\((\w+)\)s", lambda found: f"${names.index(found[1]) + 1}", statement)


def each(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the node of a plan and all below it."""
    yield node
    for child in node.get("Plans", []):
        yield from each(child)
