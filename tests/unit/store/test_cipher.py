"""What a cipher encrypted, it decrypts under the same key, as the same part, for the same owner."""

from __future__ import annotations

import os
import sys

import pytest

from outbox.domain.errors import ConfigurationError
from outbox.store.encryption.cipher import Cipher, MissingKey, Part

KEYS = {"new": b"n" * 32, "old": b"o" * 32}
OWNER = "<1@shop.example>"


@pytest.mark.parametrize("octets", [b"", b"x", b"\0" * 100_000])
@pytest.mark.parametrize("part", Part)
def test_what_was_encrypted_is_decrypted(part: Part, octets: bytes) -> None:
    cipher = Cipher(KEYS)
    sealed = cipher.seal(part, octets, OWNER)
    assert len(sealed) == len(octets) + 28
    assert cipher.open("new", part, sealed, OWNER) == octets


def test_the_first_key_encrypts() -> None:
    sealed = Cipher(KEYS).seal(Part.CONTENT, b"x", OWNER)
    assert Cipher({"new": KEYS["new"]}).open("new", Part.CONTENT, sealed, OWNER) == b"x"


@pytest.mark.parametrize(
    ("key_id", "part", "owner"),
    [
        ("old", Part.CONTENT, OWNER),
        ("new", Part.HEADERS, OWNER),
        ("new", Part.MERGED, OWNER),
        ("new", Part.CONTENT, ""),
        ("new", Part.CONTENT, "<2@shop.example>"),
    ],
)
def test_under_another_key_as_another_part_or_for_another_owner_it_is_not_decrypted(
    key_id: str, part: Part, owner: str
) -> None:
    cipher = Cipher(KEYS)
    sealed = cipher.seal(Part.CONTENT, b"x", OWNER)
    with pytest.raises(ValueError, match="not what was encrypted"):
        cipher.open(key_id, part, sealed, owner)


def test_no_two_values_have_the_same_nonce() -> None:
    cipher = Cipher(KEYS)
    ciphers = [cipher.for_many(), cipher.for_many(), cipher]
    sealed = [each.seal(Part.HEADERS, b"x", OWNER) for each in ciphers for _ in range(300)]
    assert len({found[:12] for found in sealed}) == 900
    assert {cipher.open("new", Part.HEADERS, found, OWNER) for found in sealed} == {b"x"}


def test_only_a_cipher_for_many_holds_nonces_that_were_not_used_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []
    given = os.urandom

    def random(size: int) -> bytes:
        read.append(size)
        return given(size)

    monkeypatch.setattr(os, "urandom", random)
    cipher = Cipher(KEYS)
    many = cipher.for_many()
    assert not read
    for each in (cipher, many):
        for _ in range(3):
            each.seal(Part.CONTENT, b"x", OWNER)
    assert read == [12, 12, 12, 64 * 12]


@pytest.mark.parametrize("length", [0, 5, 12, 20, 28])
def test_what_was_cut_is_not_decrypted(length: int) -> None:
    cipher = Cipher(KEYS)
    sealed = cipher.seal(Part.CONTENT, b"x", OWNER)
    with pytest.raises(ValueError, match=r"."):
        cipher.open("new", Part.CONTENT, sealed[:length], OWNER)


def test_a_missing_key_is_named() -> None:
    with pytest.raises(MissingKey, match="OUTBOX_ENCRYPTION_KEYS lacks the key 'k1'") as caught:
        Cipher(KEYS).open("k1", Part.CONTENT, b"", OWNER)
    assert caught.value.key_id == "k1"
    assert Cipher(KEYS).missing(["k2", "new", "k1", "k2"]) == ["k1", "k2"]


def test_a_digest_differs_with_its_key_and_with_the_keys_id() -> None:
    plain = b"d" * 32
    ciphers = [Cipher(), Cipher(KEYS), Cipher({"old": KEYS["old"]}), Cipher({"x": KEYS["old"]})]
    assert len({cipher.digest(plain) for cipher in ciphers}) == 4
    assert Cipher().digest(plain) == plain
    assert Cipher(KEYS).digest_under("old", plain) == ciphers[2].digest(plain)


def test_without_the_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    assert Cipher().key_id is None
    with pytest.raises(ConfigurationError, match=r"pip install 'flask-mail-outbox\[encryption\]'"):
        Cipher(KEYS)
