"""The digests by which an email is looked up: of its recipients' addresses and its Message-ID."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import sha256

from ..config.search_terms import Term
from ..header.address import spellings, suppression_key

_OCTETS = 8
"""How much of a digest is kept: the size of a BIGINT."""


def recipient_digest(address: str) -> int:
    """Return the digest under which emails to this address are looked up.

    The address is in the form of the envelope, with its domain in ASCII.
    """
    return _digest(b"r", suppression_key(address))


def recipient_digests(address: str) -> list[int]:
    """Return the digests under which a row may have this address; earlier versions' among them."""
    return [_digest(b"r", each) for each in spellings(address)]


def message_id_digest(message_id: str) -> int:
    """Return the digest under which the email with this Message-ID is looked up."""
    return _digest(b"m", message_id)


def digests(
    indexed: Collection[Term], recipients: Iterable[str], message_id: str
) -> frozenset[int]:
    """Return the digests of an email for those terms that are `indexed`."""
    found = set(map(recipient_digest, recipients)) if Term.RECIPIENT in indexed else set[int]()
    if Term.MESSAGE_ID in indexed:
        found.add(message_id_digest(message_id))
    return frozenset(found)


def former_digests(
    indexed: Collection[Term], recipients: Iterable[str], message_id: str
) -> frozenset[int]:
    """Return `digests`, and those under which an earlier version looked up the same email."""
    found = digests(indexed, recipients, message_id)
    if Term.RECIPIENT not in indexed:
        return found
    return found.union(*map(recipient_digests, recipients))


def _digest(kind: bytes, text: str) -> int:
    """Return a signed number of 64 bits. Two terms may share it, so a hit must be verified."""
    octets = sha256(kind + text.encode()).digest()[:_OCTETS]
    return int.from_bytes(octets, "big", signed=True)
