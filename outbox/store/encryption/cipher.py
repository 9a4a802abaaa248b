"""Encrypts octets under one of several keys: AES-256-GCM (NIST SP 800-38D).

Each key of the settings gives one key for each part of an email, and one for digests (HMAC-SHA-256,
as in HKDF's expansion, RFC 5869 §2.3). So a part never decrypts as another one, and the number of
random nonces counts for each part alone.
"""

from __future__ import annotations

import copy
import hmac
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from itertools import chain, repeat
from struct import Struct

from ...domain.errors import ConfigurationError

_NONCE = 12
"""Octets: 96 bits (SP 800-38D §8.2.2). With random ones a key serves for 2**32 octet strings."""

_AT_ONCE = 64
"""Nonces in one read of the system's random octets: more would not be faster."""

_SPLIT = Struct(f"{_NONCE}s" * _AT_ONCE).unpack

_LACKING = (
    "OUTBOX_ENCRYPTION_KEYS needs the package cryptography: pip install"
    " 'flask-mail-outbox[encryption]'"
)


class Part(StrEnum):
    """What is encrypted. A value takes part in its key: never change one."""

    CONTENT = "content"
    HEADERS = "headers"
    FILTERS = "filters"  # of a job: those that may name a person
    MERGED = "merged"  # an email's own headers, and its values behind them


class MissingKey(ConfigurationError):
    """A stored email is encrypted with a key that the settings do not have; `key_id` names it."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"OUTBOX_ENCRYPTION_KEYS lacks the key {key_id!r}")
        self.key_id = key_id


class Cipher:
    """Encrypts with the first key, and decrypts with the key that is named.

    Without keys it leaves everything in clear. Raises ConfigurationError if there are keys, and the
    package `cryptography` is not installed.
    """

    def __init__(self, keys: Mapping[str, bytes] | None = None) -> None:
        self._keys = {key_id: _Key(key_id, key) for key_id, key in (keys or {}).items()}
        self.key_id = next(iter(self._keys), None)
        self._current = None if self.key_id is None else self._keys[self.key_id]
        self._nonce: Callable[[], bytes] = partial(os.urandom, _NONCE)

    def for_many(self) -> Cipher:
        """Return this cipher for the emails of one statement: it reads their nonces together.

        Keep it no longer. A process that forked, or a machine that was copied, while it held nonces
        would use them twice, and under AES-GCM two values with one nonce betray each other.
        """
        found = copy.copy(self)
        found._nonce = _nonces().__next__
        return found

    def seal(self, part: Part, octets: bytes, owner: str) -> bytes:
        """Return the octets encrypted; they can be decrypted only together with the same `owner`.

        Without keys they are returned as they are.
        """
        if self._current is None:
            return octets
        nonce = self._nonce()
        return nonce + self._current.parts[part].encrypt(nonce, octets, owner.encode())

    def open(self, key_id: str | None, part: Part, octets: bytes, owner: str) -> bytes:
        """Return the octets decrypted with this key; None: they are in clear.

        Raises MissingKey, and ValueError where they are not what was sealed.
        """
        if key_id is None:
            return octets
        key = self._key(key_id)
        try:
            found = key.parts[part].decrypt(octets[:_NONCE], octets[_NONCE:], owner.encode())
        except key.refusal:
            raise ValueError("the stored octets are not what was encrypted") from None
        return bytes(found)

    def digest(self, plain: bytes) -> bytes:
        """Return a digest by which equal contents are found: without the key it tells nothing.

        `plain` is a SHA-256 digest. Without keys it is returned as it is.
        """
        return plain if self._current is None else self._current.digest(plain)

    def digest_under(self, key_id: str | None, plain: bytes) -> bytes:
        """Return the digest that the key with this id gives; None: the plain one.

        Raises MissingKey.
        """
        return plain if key_id is None else self._key(key_id).digest(plain)

    def digests(self, plain: bytes) -> frozenset[bytes]:
        """Return the plain digest, and the one that each key gives."""
        return frozenset([plain, *(key.digest(plain) for key in self._keys.values())])

    def missing(self, key_ids: Iterable[str]) -> list[str]:
        """Return those of the ids whose keys the settings lack."""
        return sorted(set(key_ids) - self._keys.keys())

    def _key(self, key_id: str) -> _Key:
        try:
            return self._keys[key_id]
        except KeyError:
            raise MissingKey(key_id) from None


def _nonces() -> Iterator[bytes]:
    """Return random nonces without end, each once. No step of it is Python's, so it is fast."""
    return chain.from_iterable(map(_SPLIT, map(os.urandom, repeat(_NONCE * _AT_ONCE))))


class _Key:
    """One key of the settings, and the keys that are made from it."""

    def __init__(self, key_id: str, key: bytes) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise ConfigurationError(_LACKING) from None
        self.refusal = InvalidTag
        self.parts = {part: AESGCM(_made_from(key, part)) for part in Part}
        # With the id, a content is found again only under the id that its row names.
        self._digest_key = _made_from(key, f"digest {key_id}")

    def digest(self, plain: bytes) -> bytes:
        return hmac.digest(self._digest_key, plain, "sha256")


def _made_from(key: bytes, label: str) -> bytes:
    return hmac.digest(key, f"flask-mail-outbox {label}\1".encode(), "sha256")
