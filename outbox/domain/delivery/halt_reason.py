"""The reason for which a server is halted: a breaker's row has it in words, for people."""

from __future__ import annotations

from .reply_words import CONNECTIONS, POLICY_QUOTA, THROTTLE, words_of
from .transaction import Phase, Reply


def halt_reason(phase: Phase, reply: Reply) -> str:
    """Return a reply in words: where it came, and what the server said."""
    return f"{phase}: {reply.code} {reply.text}"


def refuses_login(reason: str) -> bool:
    """Return whether the server refused the user name or the password."""
    return reason.startswith(Phase.AUTH)


def refuses_connections(reason: str) -> bool:
    """Return whether the server refused a session that it might take with fewer of them."""
    return reason.startswith(f"{Phase.GREETING}: 4") or bool(CONNECTIONS.search(words_of(reason)))


def throttles(reason: str) -> bool:
    """Return whether the server wants fewer emails in a time."""
    words = words_of(reason)
    return bool(THROTTLE.search(words) or POLICY_QUOTA.search(words))
