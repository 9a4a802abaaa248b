"""What emails can be found by, beyond what is always indexed: the words of `OUTBOX_SEARCH`."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from ..errors import ConfigurationError


class Term(StrEnum):
    """What can be indexed at enqueue."""

    RECIPIENT = "recipient"  # each recipient's whole address, without regard to case
    MESSAGE_ID = "message_id"
    SUBJECT = "subject"  # its beginning, without regard to case


ALL_TERMS = tuple(Term)
LOOKED_UP = frozenset({Term.RECIPIENT, Term.MESSAGE_ID})
"""The terms that are found by their digests."""


def read_search(key: str, value: Any) -> tuple[Term, ...]:
    """Read the terms that are indexed, or raise ConfigurationError."""
    if not isinstance(value, (list, tuple)) or not all(word in ALL_TERMS for word in value):
        raise ConfigurationError(f"{key} must be a list of {', '.join(ALL_TERMS)}, or be empty")
    return tuple(term for term in Term if term in value)
