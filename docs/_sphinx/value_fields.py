"""A part of Sphinx that lists the fields of values and enums with the comments behind them."""

from __future__ import annotations

import dataclasses
import inspect
import re
from enum import Enum
from typing import Any

_FIELD = re.compile(r"    (\w+)(?:: ([^=#]+?))? *(?:= ([^#]+?))? *(?:  # (.+))?")


def fields_of(kind: type) -> list[str]:
    """Return a list in reStructuredText: each field, or member, that the class itself declares."""
    names = {field.name for field in dataclasses.fields(kind)} if _is_value(kind) else set()
    if issubclass(kind, Enum):
        names = set(kind.__members__)
    found = map(_FIELD.fullmatch, inspect.getsource(kind).splitlines())
    return [_line(*each.groups()) for each in found if each and each[1] in names]


def _line(name: str, annotation: str | None, default: str | None, comment: str | None) -> str:
    told = f": {annotation}" if annotation else f" = {default}"
    return f"* ``{name}{told}``" + (f": {comment}" if comment else "")


def _is_value(kind: object) -> bool:
    return isinstance(kind, type) and dataclasses.is_dataclass(kind)


def _is_listed(kind: object) -> bool:
    return _is_value(kind) or (isinstance(kind, type) and issubclass(kind, Enum))


def _add_fields(
    _app: object, what: str, _name: str, kind: Any, _options: object, lines: Any
) -> None:
    if what == "class" and _is_listed(kind):
        lines += ["", *fields_of(kind)]


def _drop_signature(
    _app: object, what: str, _name: str, kind: Any, _options: object, *_: object
) -> tuple[str, None] | None:
    """Leave out the parameters of a value: nobody but the outbox makes one."""
    return ("", None) if what == "class" and _is_listed(kind) else None


def setup(app: Any) -> dict[str, bool]:
    """Connect to autodoc."""
    app.connect("autodoc-process-docstring", _add_fields)
    app.connect("autodoc-process-signature", _drop_signature)
    return {"parallel_read_safe": True}
