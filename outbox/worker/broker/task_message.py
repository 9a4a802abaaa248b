"""Checks the types in a task's message that Celery takes for granted.

Celery's worker unpacks the time limit, looks the id up in a set and unpacks the body, all without a
check. Where one of them has another type, the worker ends. The broker then hands the message out
again, and the next worker ends as well.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from math import inf
from typing import Any

from celery.utils.time import maybe_iso8601

_LONGEST_ID = 255

_TEXTS = ("shadow", "root_id", "parent_id", "group", "argsrepr", "kwargsrepr", "origin", "lang")
_LISTS = ("callbacks", "errbacks", "chain")
_Sequence = (list, tuple)


def fault(message: Any, body: Any) -> str | None:
    """Return which part of a task's message is garbled; None where Celery can take it.

    `body` is what a Celery strategy gets: the decoded body for protocol 1, else None.
    """
    try:
        content = message.payload if body is None else body
    except Exception:  # noqa: BLE001  (no JSON, another serializer, another encoding, too deep)
        return "body"
    if isinstance(content, Mapping) and (body is not None or "args" in content):
        headers = {**content, **message.headers} if "args" in content else content
        parts = (content.get("args", ()), content.get("kwargs", {}), content)
    elif isinstance(content, _Sequence) and len(content) == 3:
        headers, parts = message.headers, tuple(content)
    else:
        return "body"
    return _header_fault(headers) or (None if _is_call(*parts) else "body")


def address_fault(message: Any, known: Container[str]) -> str | None:
    """Return the garbled part that keeps Celery from looking up, or refusing, a task; or None.

    `known` holds the names of the worker's tasks.
    """
    headers = message.headers
    if "task" not in headers:  # protocol 1: the body has everything
        try:
            headers = message.payload
        except Exception:  # noqa: BLE001  (Celery decodes it again, and handles the error)
            return None
        if not isinstance(headers, Mapping) or "task" not in headers:
            return None  # Celery handles this itself
    name = headers["task"]
    if not isinstance(name, str):
        return "task"
    return None if name in known or _is_id(headers.get("id")) else "id"


def _header_fault(headers: Mapping[str, Any]) -> str | None:
    checks = {
        "id": _is_id(headers.get("id")),
        "timelimit": _is_time_limit(headers.get("timelimit")),
        "eta": _is_moment(headers.get("eta")),
        "expires": _is_moment(headers.get("expires")),
        "retries": _is_count(headers.get("retries")),
        "stamped_headers": _is_list_of_texts(headers.get("stamped_headers")),
        "stamps": headers.get("stamps") is None or isinstance(headers["stamps"], Mapping),
        **{name: _is_text(headers.get(name)) for name in _TEXTS},
    }
    return next((name for name, right in checks.items() if not right), None)


def _is_call(args: Any, kwargs: Any, embed: Any) -> bool:
    if not isinstance(args, _Sequence) or not isinstance(kwargs, Mapping):
        return False
    if embed is None:
        return True
    if not isinstance(embed, Mapping) or not isinstance(embed.get("chord"), Mapping | None):
        return False
    return all(isinstance(embed.get(name), list | tuple | None) for name in _LISTS)


def _is_id(value: Any) -> bool:
    # The id is logged: a line break in it could forge a log line.
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_ID and value.isprintable()


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_count(value: Any) -> bool:
    return value is None or (type(value) is int and value >= 0)


def _is_list_of_texts(value: Any) -> bool:
    return value is None or (isinstance(value, _Sequence) and all(map(_is_text, value)))


def _is_time_limit(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, _Sequence) and len(value) == 2 and all(map(_is_seconds, value))


def _is_seconds(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and 0 < value < inf)


def _is_moment(value: Any) -> bool:
    if value is None:
        return True
    if not isinstance(value, str):
        return False
    try:
        maybe_iso8601(value).astimezone()
    except (ValueError, OverflowError, TypeError, AttributeError):
        return False
    return True
