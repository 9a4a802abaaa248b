"""Encryption keys for tests, and an app's settings with them."""

from __future__ import annotations

from base64 import b64encode
from typing import Any


def keys(*key_ids: str) -> dict[str, Any]:
    """Return the settings with these keys, the current one first. An id stands for its octets."""
    made = {key_id: b64encode(key_id.encode().ljust(32, b"!")).decode() for key_id in key_ids}
    return {"OUTBOX_ENCRYPTION_KEYS": made}
