"""What stands in the place of an erased address."""

from __future__ import annotations

PLACEHOLDER = "erased@invalid"
"""No mailbox can have it: the domain `invalid` exists nowhere (RFC 6761 §6.4)."""


def names(text: str | None, address: str) -> bool:
    """Return whether the address stands in the text; case does not count."""
    return text is not None and address.lower() in text.lower()
