"""Gives a `flask_mail.Message`'s Message-ID the sender's domain instead of this host's name."""

from __future__ import annotations

import re
import socket
from functools import lru_cache


def of_domain(given: object, domain: str) -> str | None:
    """Return the identifier with this domain if Flask-Mail made it from the host's name, else None.

    `localhost` or a pod's name tells a reader nothing, and spam filters count it. An identifier
    that the user gave stays as it is.
    """
    end = _end()
    if not isinstance(given, str) or not given.endswith(end):
        return None
    left = given[: -len(end)]
    return f"{left}@{domain}>" if _MADE.fullmatch(left) else None


_MADE = re.compile(r"<[0-9]+\.[0-9]+\.[0-9]+")
"""What `email.utils.make_msgid` writes before the @."""


@lru_cache(maxsize=1)
def _end() -> str:
    """Return the end of identifiers made on this host. It is cached: a resolver can be slow."""
    return f"@{socket.getfqdn()}>"


def forget_host() -> None:
    """Drop the cached host name, so that it is looked up again."""
    _end.cache_clear()
