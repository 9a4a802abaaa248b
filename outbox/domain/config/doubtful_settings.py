"""Finds settings that are valid, and most likely not what was meant.

They are told and not refused: an app may have `MAIL_…` keys of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from .doubtful_values import of_server_values, of_values
from .servers import ServerSettings
from .settings import PREFIX, Settings

_MAIL = "MAIL_"
_READ = ("SERVER", "PORT", "USERNAME", "PASSWORD", "USE_TLS", "USE_SSL", "DEFAULT_SENDER")
_KNOWN = frozenset(
    {
        *(*_READ, "SUPPRESS_SEND", "MAX_EMAILS", "ASCII_ATTACHMENTS", "DEBUG"),
        *("BACKEND", "TIMEOUT", "SSL_CERTFILE", "SSL_KEYFILE", "FILE_PATH", "USE_LOCALTIME"),
        "DEFAULT_CHARSET",
    }
)
"""The keys of Flask-Mail and of Flask-Mailman, without their prefix."""

_OTHER_WORDS = {
    "SERVER": ("HOST", "HOSTNAME", "SMTP_SERVER", "SMTP_HOST", "SMTP"),
    "PORT": ("SMTP_PORT",),
    "USERNAME": ("USER", "LOGIN", "HOST_USER", "SMTP_USERNAME", "SMTP_USER"),
    "PASSWORD": ("PASS", "PASSWD", "HOST_PASSWORD", "SMTP_PASSWORD"),
    "USE_TLS": ("TLS", "STARTTLS", "USE_STARTTLS"),
    "USE_SSL": ("SSL", "SSL_TLS", "USE_SMTPS"),
    "DEFAULT_SENDER": ("FROM", "SENDER", "FROM_ADDRESS", "DEFAULT_FROM", "FROM_EMAIL"),
    "SUPPRESS_SEND": ("SUPPRESS",),
}
"""What other programs, or people, call these keys."""

_ELSEWHERE = {
    "DEFAULT_FROM_EMAIL": "DEFAULT_SENDER",
    "DEFAULT_MAIL_SENDER": "DEFAULT_SENDER",
}
"""Whole keys of other programs. Those that begin with EMAIL_ or SMTP_ are read as with MAIL_."""

_WORDS = {word: name for name, words in _OTHER_WORDS.items() for word in words}
_CLOSE = 0.8
"""How alike two keys are, from 0 to 1, if one is most likely a misspelling of the other."""

_OURS = frozenset(field.name.upper() for field in dataclasses.fields(Settings))
"""The keys of the outbox, without their prefix."""

_TLS_PORTS, _CLEAR_PORTS = (465,), (25, 587)


def doubtful(
    config: Mapping[str, Any], servers: Sequence[ServerSettings], settings: Settings
) -> list[str]:
    """Return a line, with the remedy, for each setting that most likely means something else."""
    found = [*_not_read(config), *of_values(config.get("MAIL_DEFAULT_SENDER"), settings)]
    for server in servers:
        found += [*_of_server(server), *of_server_values(server)]
    return found


def _not_read(config: Mapping[str, Any]) -> Iterator[str]:
    for key, value in config.items():
        if value is None or value == "":
            continue
        meant = _ours(key.upper()) or _meant(key.upper())
        if meant is None or meant == key or config.get(meant) is not None:
            continue
        # What the list of servers has is not read from MAIL_ keys.
        if config.get("OUTBOX_SERVERS") and meant.removeprefix(_MAIL) in _READ[:-1]:
            continue
        capitals = ": keys are in capitals" if key.upper() == meant else ""
        yield f"{key} is not read; did you mean {meant}?{capitals}"


def _ours(key: str) -> str | None:
    """Return the outbox's key that this one, in capitals, is or stands for.

    Its prefix is misspelt, or has another one before it. Its name is exact, and the first letter:
    an app may have keys that are a little like ours.
    """
    before, separator, name = key.rpartition(PREFIX)
    if separator and before[-1:] in ("", "_") and name in _OURS:
        return PREFIX + name
    prefix, _, name = key.partition("_")
    is_alike = get_close_matches(prefix, [PREFIX.rstrip("_")], cutoff=_CLOSE)
    return PREFIX + name if is_alike and prefix[0] == PREFIX[0] and name in _OURS else None


def _meant(key: str) -> str | None:
    """Return the key that is read and that this one most likely stands for; itself if it is read.

    `key` is in capitals.
    """
    if key in _ELSEWHERE:
        return _MAIL + _ELSEWHERE[key]
    prefix, _, name = key.partition("_")
    if prefix == "MAIL":
        if name in _KNOWN:
            return key
        close = get_close_matches(name, _READ, n=1, cutoff=_CLOSE)
        meant = _WORDS.get(name) or (close[0] if close else None)
    elif prefix in ("EMAIL", "SMTP"):
        meant = name if name in _READ else _WORDS.get(name)
    else:
        return None
    return None if meant is None else _MAIL + meant


def _of_server(server: ServerSettings) -> Iterator[str]:
    name = server.name
    if server.port in _TLS_PORTS and server.security != "tls":
        yield (
            f"{name}: a server on port {server.port} speaks TLS from the first octet: set"
            " MAIL_USE_SSL (use_ssl) and not MAIL_USE_TLS, or another port"
        )
    if server.port in _CLEAR_PORTS and server.security == "tls":
        yield (
            f"{name}: a server on port {server.port} begins in clear: set MAIL_USE_TLS (use_tls),"
            " which is STARTTLS, and not MAIL_USE_SSL, or another port"
        )
    if server.username and not server.password:
        yield f"{name}: a user name is set without a password: the server will refuse the login"
    if server.password and not server.username:
        yield f"{name}: a password is set without a user name: nothing logs in with it"
