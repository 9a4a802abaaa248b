"""Reads `OUTBOX_ENCRYPTION_KEYS`: the keys with which contents are encrypted, by their ids."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from ..errors import ConfigurationError

KEY_SIZE = 32
"""Octets of a key: AES-256."""
MAX_KEY_ID = 32
"""Characters. The id stands in the row of each content that is encrypted with the key."""

_ID = re.compile(rf"[A-Za-z0-9._-]{{1,{MAX_KEY_ID}}}")


def read_encryption_keys(key: str, value: Any) -> Mapping[str, bytes] | None:
    """Return the keys by their ids, in the order given; None if there are none.

    A key is 32 octets, or their base64. Raises ConfigurationError, which names no key's value.
    """
    if value is None or value == {}:
        return None
    if not isinstance(value, Mapping):
        rule = 'must be a mapping of key ids to keys, such as {"2026-11": "…"}'
        raise ConfigurationError(f"{key} {rule}, not {type(value).__name__}")
    found: dict[str, bytes] = {}
    for key_id, given in value.items():
        if not isinstance(key_id, str) or not _ID.fullmatch(key_id):
            rule = f"1 to {MAX_KEY_ID} letters, digits, dots, dashes and underscores"
            raise ConfigurationError(f"{key}: each key id must be text of {rule}")
        octets = _octets(given)
        if octets is None:
            raise ConfigurationError(f"{key}[{key_id!r}] must be {KEY_SIZE} octets in base64")
        found[key_id] = octets
    if len(set(found.values())) < len(found):
        raise ConfigurationError(f"{key} must not have one key under two ids")
    return found


def _octets(given: Any) -> bytes | None:
    if isinstance(given, str):
        try:
            given = b64decode(given.strip().translate(str.maketrans("-_", "+/")), validate=True)
        except (binascii.Error, ValueError):
            return None
    return given if isinstance(given, bytes) and len(given) == KEY_SIZE else None
