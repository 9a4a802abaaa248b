"""A server's reply as the rows of attempts and recipients keep it."""

from __future__ import annotations

from typing import Any

from ...domain.delivery.transaction import Reply
from .column_types import ENHANCED_LENGTH, REPLY_LENGTH


def reply_values(reply: Reply) -> dict[str, Any]:
    """Return the columns of a reply, cut to their lengths."""
    return {
        "code": reply.code,
        "enhanced": reply.enhanced[:ENHANCED_LENGTH],
        "reply": reply.text[:REPLY_LENGTH],
    }
