"""What the soak's addresses, tags and logs look like: known to the load, the server, the auditor.

It imports nothing, so that the auditor can use it and share no code with the library.
"""

from __future__ import annotations

DOMAIN = "soak.example"

REFUSED_AT = {"refused-rcpt": "RCPT", "refused-dot": "DOT"}
"""The start of a local part, and where the server refuses such an email for good, always."""

BUSINESS = "X-Business"
"""The header that carries the business row's reference."""

CLASS, CLASS_OVER = "class", "class over"
"""The events in the server's notes that say that a class of emails is refused, and no more."""


def address(reference: str, number: int, refused: str = "", domain: str = DOMAIN) -> str:
    """Return the address of a business row's reader; no two emails share one."""
    mark = f"{refused}-" if refused else ""
    return f"{mark}{reference}-{number}@{domain}"


def refused_at(recipient: str) -> str | None:
    """Return where the server refuses this recipient on purpose, if it does."""
    return next((at for mark, at in REFUSED_AT.items() if recipient.startswith(mark)), None)
