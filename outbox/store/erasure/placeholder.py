"""What stands in the place of an erased address."""

from __future__ import annotations

PLACEHOLDER = "erased@invalid"
"""No mailbox can have it: the domain `invalid` exists nowhere (RFC 6761 §6.4)."""


def names(text: str | None, address: str) -> bool:
    """Return whether the address stands in the text; case does not count.

    It may stand there as `local=domain`, as in a sender whose bounces tell who it was (VERP).
    """
    if text is None:
        return False
    lower, local_domain = text.lower(), address.lower()
    return local_domain in lower or "=".join(local_domain.rsplit("@", 1)) in lower
