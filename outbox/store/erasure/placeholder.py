"""What stands in the place of an erased address."""

PLACEHOLDER = "erased@invalid"
"""No mailbox can have it: the domain `invalid` exists nowhere (RFC 6761 §6.4)."""
