"""Tombstones: keyed digests of erased addresses, by which these are known again.

A plain digest would not do: whoever has a list of addresses could try them all.
"""

from __future__ import annotations

import hmac

from ...domain.errors import ConfigurationError
from ...domain.header.address import spellings

SECRET_ID_LENGTH = 8

_NO_SECRET = "set OUTBOX_ERASE_KEY or SECRET_KEY: erased addresses are remembered under it"  # noqa: S105


class Tombstones:
    """Makes digests of addresses (HMAC-SHA-256) under one secret.

    Without a secret there is no `secret_id`, and each digest raises ConfigurationError.
    """

    def __init__(self, secret: str | bytes | None = None) -> None:
        octets = secret.encode() if isinstance(secret, str) else secret
        self._key = _derived(octets, b"erased") if octets else None
        self.secret_id = None if self._key is None else _derived(self._key, b"id").hex()[:8]

    def digest(self, address: str) -> bytes:
        """Return the address's digest; case does not count. Raises ConfigurationError."""
        return self.digests(address)[0]

    def digests(self, address: str) -> list[bytes]:
        """Return the digests that a row may have, an earlier version's too, as `spellings` does."""
        if self._key is None:
            raise ConfigurationError(_NO_SECRET)
        return [hmac.digest(self._key, each.encode(), "sha256") for each in spellings(address)]


def _derived(key: bytes, label: bytes) -> bytes:
    return hmac.digest(key, b"flask-mail-outbox " + label, "sha256")
