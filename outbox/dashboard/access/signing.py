"""Signed texts: a page hands one out, and a later request brings it back, maybe to another host."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from flask import current_app
from itsdangerous import BadData, URLSafeTimedSerializer

from ...domain.errors import ConfigurationError

_log = logging.getLogger("outbox")

LEEWAY = 300
"""Seconds for which another host's clock may be ahead: Kerberos allows as much, too.

The signature proves that a text is ours, whatever its time. But with a clock that was ahead for a
while, a text would hold longer than its lifetime. So there is a bound.
"""

_NO_KEY = "the dashboard's forms need app.config['SECRET_KEY'], to sign their tokens"
_AHEAD = (
    "outbox: a form of the dashboard was signed %.0f s ahead of this host's clock, and is refused:"
    " set the clocks of the app's hosts"
)


class Forged(Exception):
    """A form was not sent from a page of this visitor, or from one that is too old."""


def salt_of(*parts: str) -> str:
    """Return a salt of several parts, such as who and what. No other parts have the same one.

    A name may have blanks and any other character. So no character alone can stand between them.
    """
    return json.dumps(parts)


def sign(salt: str, value: Any) -> str:
    """Return a value as a text that nobody else can make; `salt` says what it is for."""
    return str(_signer(salt).dumps(value))


def read(salt: str, given: str, lifetime: float | None) -> Any:
    """Return the value that was signed up to `lifetime` seconds ago; raise Forged for other texts.

    With a lifetime of None its time does not count. itsdangerous itself would refuse what is
    signed a second ahead.
    """
    try:
        value, signed_at = _signer(salt).loads(given, return_timestamp=True)
    except (BadData, ValueError, TypeError) as refusal:
        raise Forged from refusal
    age = (datetime.now(UTC) - signed_at).total_seconds()
    if lifetime is None or -LEEWAY <= age <= lifetime:
        return value
    if age < 0:
        _log.warning(_AHEAD, -age)
    raise Forged


def _signer(salt: str) -> URLSafeTimedSerializer:
    key = current_app.secret_key
    if not key:
        raise ConfigurationError(_NO_KEY)
    return URLSafeTimedSerializer(key, salt=salt)
