"""Lists of texts or octets as one parameter of a statement.

Where a database has arrays, the statement's text is then the same for every list. So it is built
once, and PostgreSQL plans it once: see `prepared_statements`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, LargeBinary, Text, any_, bindparam, cast, func
from sqlalchemy.dialects.postgresql import ARRAY

from .database import Database

_BREAK = "\n"


def is_among_values(database: Database, key: Column[Any], name: str) -> ColumnElement[bool]:
    """Return the condition: the key is one of the values in the statement's parameter `name`.

    The parameter is what `as_parameter` returns.
    """
    if not database.facts.arrays:
        return key.in_(bindparam(name, expanding=True))
    given = bindparam(name, type_=Text())
    if isinstance(key.type, LargeBinary):
        return key == any_(cast(given, ARRAY(LargeBinary())))
    # Faster than an array's text form: PostgreSQL reads that octet by octet.
    return key == any_(func.string_to_array(given, func.chr(ord(_BREAK)), type_=ARRAY(Text())))


def as_parameter(database: Database, values: Sequence[str] | Sequence[bytes]) -> Any:
    """Return the values as the one parameter that `is_among_values` takes.

    A text with a line break is not found. No address has one.
    """
    if not database.facts.arrays:
        return list(values)
    octets = [value for value in values if isinstance(value, bytes)]
    if octets:
        return array_text([f'"\\\\x{value.hex()}"' for value in octets])
    return _BREAK.join(map(str, values))


def array_text(elements: Sequence[str]) -> str:
    """Return PostgreSQL's text form of an array. The driver's own form takes ten times as long."""
    return "{" + ",".join(elements) + "}"


def quoted(text: str) -> str:
    """Return a text as an element of `array_text`."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
