"""Turns typed results into what `--json` prints: the keys and formats on which scripts rely."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

import click

from ....domain.priority import Priority
from ....store.control.pause import EVERYTHING
from ....store.report_records import EmailDetails, Stats
from ...management.results import Health

_REPLY = ("code", "enhanced", "reply")


def print_json(value: object) -> None:
    """Print a result as JSON on one line."""
    click.echo(json.dumps(plain(value)))


def plain(value: object) -> Any:
    """Return a result in JSON's own types: times in ISO 8601, statuses and priorities as words."""
    match value:
        case EmailDetails():
            return _email(value)
        case Stats():
            return _stats(value)
        case Health(oldest_due_seconds=None):  # the database is away: no figure is known
            return {name: plain(getattr(value, name)) for name in ("healthy", "limit", "problems")}
        case Priority():
            return value.name.lower()
        case datetime():
            return value.isoformat()
        case Mapping():
            return {plain(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    return _record(value) if is_dataclass(value) else value


def _record(value: Any) -> dict[str, Any]:
    return {field.name: plain(getattr(value, field.name)) for field in fields(value)}


def _email(email: EmailDetails) -> dict[str, Any]:
    found = _record(email)
    if email.recipients == 1:  # the recipient's reply is that of the attempts
        for recipient in found["recipient_list"]:
            for name in _REPLY:
                del recipient[name]
    return found


def _stats(stats: Stats) -> dict[str, Any]:
    found = _record(stats)
    del found["all_paused"]
    scopes = [EVERYTHING] if stats.all_paused else []
    found["paused"] = sorted([*scopes, *(plain(priority) for priority in stats.paused)])
    return found
