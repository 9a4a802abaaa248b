"""The Message-ID of a `flask_mail.Message`: of the sender's domain, and not of this host."""

from __future__ import annotations

import re
import socket
from functools import lru_cache


def of_domain(given: object, domain: str) -> str | None:
    """Return the identifier with this domain if Flask-Mail made it of the host's name, or None.

    `localhost` and the name of a pod tell a reader nothing, and spam filters count them. What a
    user gave stays as it is.
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
    """Flask-Mail's constructor asks for the name each time; it can take a resolver's time."""
    return f"@{socket.getfqdn()}>"


def forget_host() -> None:
    """Ask for the host's name anew."""
    _end.cache_clear()
