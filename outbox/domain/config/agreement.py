"""Which settings must be the same in each worker, and a digest of each, to tell where they differ.

A digest tells nothing of a value, and a secret has none.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from .servers import ServerSettings
from .settings import PREFIX, Settings

_LENGTH = 8
"""Hexadecimal digits of a digest: two different values have the same one in 4 billion cases."""

_OF_ONE_PROCESS = frozenset(
    {
        # of a host
        *("helo_name", "tls_ca_file"),
        # of the process that enqueues, or that a person asks
        *("allow_two_commits", "envelope_from", "health_age", "mail_autocommit", "max_size"),
        *("message_id_domain", "nudge", "previews", "reuse_size"),
    }
)
"""Settings that may differ from process to process: no worker decides by them what others do."""

_OF_A_SERVER = (
    *("name", "host", "port", "security", "username"),
    *("rate", "connections", "order", "weight"),
)


def setting_digests(
    settings: Settings, servers: Iterable[ServerSettings], *, suppressed: bool
) -> dict[str, str]:
    """Return a digest of each setting on which the workers must agree, by its key in the config."""
    found = {
        f"{PREFIX}{field.name.upper()}": _digest(getattr(settings, field.name))
        for field in dataclasses.fields(settings)
        if field.repr and field.name not in _OF_ONE_PROCESS
    }
    shown = [[getattr(server, name) for name in _OF_A_SERVER] for server in servers]
    key = f"{PREFIX}SERVERS" if settings.servers else "MAIL_… (the SMTP server)"
    return found | {key: _digest(shown), "MAIL_SUPPRESS_SEND": _digest(suppressed)}


def differing(ours: Mapping[str, str], theirs: Mapping[str, str]) -> tuple[str, ...]:
    """Return the settings that both know and that differ; another version may lack some."""
    return tuple(sorted(key for key in ours.keys() & theirs.keys() if ours[key] != theirs[key]))


def _digest(value: Any) -> str:
    if isinstance(value, Mapping):
        value = sorted(value.items())
    return hashlib.sha256(repr(value).encode()).hexdigest()[:_LENGTH]
