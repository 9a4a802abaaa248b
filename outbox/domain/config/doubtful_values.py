"""Finds values that are valid, and most likely were copied wrong or counted in another unit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..errors import InvalidMessage
from ..header.address import check_address
from ..header.fields import parse_addresses
from .servers import ServerSettings
from .settings import Settings

_SENDER = "MAIL_DEFAULT_SENDER"
_NO_HOST = re.compile(r"://|[\s\"'/@]|^[^:]*:\d+$")
"""What no host name has: a scheme, blanks, quotes, a path, or a port behind one colon."""
_NAMED = re.compile(r"[^<>]*<([^<>]+)>\s*")
"""A name and an address, as Flask-Mail writes a pair; the name may lack its quotes."""

MOST_DAYS = 400
"""An age of at most this many seconds is most likely meant in days."""
MOST_LEASE = 3600.0
"""A lease of more than this many seconds is most likely meant in milliseconds."""


def of_values(sender: object, settings: Settings) -> Iterator[str]:
    """Yield a line, with the remedy, for each such value but the servers'; none has the value.

    `sender` is `MAIL_DEFAULT_SENDER`.
    """
    if not _may_be_sender(sender):
        yield (
            f"{_SENDER} is no address, so each message without a sender of its own is refused:"
            " give 'shop@shop.example', or the pair ('Shop', 'shop@shop.example')"
        )
    ages = {"RETENTION": settings.retention.ages.values(), "BODY_RETENTION": (_body(settings),)}
    for key, found in ages.items():
        if any(0 < age <= MOST_DAYS for age in found):
            yield (
                f"OUTBOX_{key} counts seconds, and by it the purge removes what ended a few minutes"
                " ago: a day has 86400"
            )
    if settings.lease > MOST_LEASE:
        yield (
            "OUTBOX_LEASE counts seconds, and by it a dead worker's emails wait for over two"
            " hours: the default is 30"
        )


def _body(settings: Settings) -> float:
    return settings.body_retention or 0.0


def of_server_values(server: ServerSettings) -> Iterator[str]:
    """Yield a line for each value of a server that most likely was copied wrong."""
    if _NO_HOST.search(server.host):
        yield (
            f"{server.name}: MAIL_SERVER (server) is no host name: give the name alone, without"
            " blanks, quotes or a scheme, and the port as MAIL_PORT (port)"
        )
    for what, value in (("user name", server.username), ("password", server.password)):
        if value and value != value.strip():
            yield (
                f"{server.name}: the {what} begins or ends with a blank or a line end: if it was"
                " read from a file, strip() it"
            )


def _may_be_sender(value: object) -> bool:
    """Return whether a sender is none, or an address as Flask-Mail takes it."""
    if not value:
        return True
    if isinstance(value, tuple) and len(value) == 2:
        return _is_address(value[1])
    if not isinstance(value, str):
        return False
    named = _NAMED.fullmatch(value)
    return _is_address(named[1] if named else value) or _is_one(value)


def _is_address(value: object) -> bool:
    """Return whether this is an address alone: the other half of a pair has the name."""
    try:
        return bool(check_address(value, _SENDER))
    except InvalidMessage:
        return False


def _is_one(text: str) -> bool:
    try:
        found = parse_addresses(_SENDER, text)
    except InvalidMessage:
        return False
    return len(found) == 1 and _is_address(found[0].addr_spec)
