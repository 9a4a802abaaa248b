"""The encryption keys of the settings: read in their order, and never shown."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from typing import Any

import pytest

from outbox.domain.config.encryption_keys import read_encryption_keys
from outbox.domain.config.settings import Settings
from outbox.domain.errors import ConfigurationError

KEY = bytes(range(224, 256))
OTHER = bytes(range(32))
NAME = "OUTBOX_ENCRYPTION_KEYS"


@pytest.mark.parametrize(
    "given",
    [
        KEY,
        b64encode(KEY).decode(),
        urlsafe_b64encode(KEY).decode(),
        f" {b64encode(KEY).decode()}\n",
    ],
)
def test_a_key_is_octets_or_their_base64(given: str | bytes) -> None:
    assert read_encryption_keys(NAME, {"2026-11": given}) == {"2026-11": KEY}


def test_the_order_stays_because_the_first_key_is_the_current_one() -> None:
    assert list(read_encryption_keys(NAME, {"b": KEY, "a": OTHER}) or ()) == ["b", "a"]


@pytest.mark.parametrize("nothing", [None, {}])
def test_no_keys_mean_no_encryption(nothing: object) -> None:
    assert read_encryption_keys(NAME, nothing) is None


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ("a text", "must be a mapping of key ids to keys"),
        ([KEY], "must be a mapping of key ids to keys"),
        ({1: KEY}, "each key id must be text"),
        ({"": KEY}, "each key id must be text"),
        ({"k" * 33: KEY}, "each key id must be text"),
        ({"k 1": KEY}, "each key id must be text"),
        ({"k1": KEY[:-1]}, r"\['k1'\] must be 32 octets in base64"),
        ({"k1": "secret"}, r"\['k1'\] must be 32 octets in base64"),
        ({"k1": "é" * 44}, r"\['k1'\] must be 32 octets in base64"),
        ({"k1": None}, r"\['k1'\] must be 32 octets in base64"),
        ({"k1": KEY, "k2": KEY}, "must not have one key under two ids"),
    ],
)
def test_any_other_value_is_refused_by_name_and_its_key_is_not_told(given: Any, rule: str) -> None:
    with pytest.raises(ConfigurationError, match=rule) as caught:
        read_encryption_keys(NAME, given)
    assert "secret" not in str(caught.value)


def test_repr_shows_no_key() -> None:
    settings = Settings.from_config({NAME: {"k1": KEY}})
    assert settings.encryption_keys == {"k1": KEY}
    assert "encryption_keys" not in repr(settings)
