"""Who may read the metrics. They have names of servers and routes, and no addresses."""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from flask import abort, request
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import Unauthorized

from ..domain.errors import ConfigurationError

Access: TypeAlias = Callable[[], bool | Awaitable[bool]]
"""Returns True if the current request may read the metrics."""

SHORTEST = 16
"""Characters of a token: a shorter one can be guessed."""

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)
"""RFC 6750 §2.1. Clients cannot send most others, so each request would be refused."""

_ASK = WWWAuthenticate("bearer", {"realm": "outbox"})


def nobody() -> bool:
    """Let nobody in: the access of a page that was given none."""
    return False


def bearer(token: str) -> Access:
    """Return an `access` that asks for this token, which Prometheus sends as a bearer token.

    Use it over HTTPS, or in a network of your own. Raises ConfigurationError for a token that is
    short, or that is no bearer token (RFC 6750).
    """
    if len(token) < SHORTEST:
        raise ConfigurationError(
            f"the token of the metrics must have {SHORTEST} characters or more"
        )
    if not _TOKEN.fullmatch(token):
        raise ConfigurationError(
            "the token of the metrics may have only letters, digits and - . _ ~ + /, and = at its"
            " end (RFC 6750): does it have a line end or a blank?"
        )
    expected = token.encode()

    def access() -> bool:
        given = request.authorization
        sent = (given.token if given and given.type == "bearer" else None) or ""
        if not hmac.compare_digest(sent.encode(), expected):
            # A whole answer: an app's own page of errors would mostly leave its header out.
            abort(Unauthorized(www_authenticate=_ASK).get_response())
        return True

    return access
