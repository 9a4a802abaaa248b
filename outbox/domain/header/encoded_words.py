"""Encoded words (RFC 2047) for a header's text outside of ASCII. Each can be decoded alone."""

from __future__ import annotations

import re
from binascii import b2a_base64
from email.header import Header, decode_header, make_header

from .charsets import NO_CHARSET, is_for_hosts

_WORD = 42
"""Octets of text in one encoded word, so that it fits a line behind any header name used here."""

_PADDED = re.compile(r"=\?utf-8\?b\?[^?]*=\?=\s", re.IGNORECASE)

_LIST_ID = re.compile(r"<[!-;=?-~]+>")
"""A list's identifier, which programs compare as it is (RFC 2919 §3, §6)."""


def in_words(text: str, name: str | None = None) -> str:
    """Return a text as encoded words in the shorter encoding, folded behind its header's name.

    GMime ends a run of words in base64 at the first padding, and shows half of the text. CPython
    may pad any word: where it does, `encoded_words` is used.
    """
    words = Header(text, "utf-8", header_name=name).encode()
    return encoded_words(text) if _PADDED.search(words) else words


def list_in_words(text: str, name: str) -> str | None:
    """Return a list's name as encoded words before its identifier; None where it has none."""
    # Split first: a pattern for all of it would try each blank as the end of the name.
    phrase, bracket, rest = text.rpartition("<")
    identifier = bracket + rest.rstrip(" \t")
    if not bracket or not _LIST_ID.fullmatch(identifier):
        return None
    phrase = phrase.strip(" \t")
    if phrase[:1] == phrase[-1:] == '"':
        phrase = phrase[1:-1]
    return f"{in_words(phrase, name)}\r\n {identifier}"


def as_read(text: str) -> str:
    """Return a header as a reader sees it.

    Raises LookupError for an unknown charset, and what `fields.LEAKS` has for other faults.
    """
    words = decode_header(text)
    if any(is_for_hosts(charset) for _, charset in words if charset is not None):
        raise LookupError(NO_CHARSET)
    return str(make_header(words))


def encoded_words(text: str) -> str:
    """Return a text as encoded words, one a line (RFC 2047 §2), each of whole characters.

    Only the last word is padded. CPython's own function searches for the shortest encoding, which
    takes too long for each reader of a newsletter.
    """
    words, letters, size = list[str](), list[bytes](), 0
    for letter in text:
        more = letter.encode()
        while size + len(more) > _WORD:
            end = _thirds(letters)  # 0 where a shorter letter stands before letters of three
            words.append(_word(b"".join(letters[:end])) if end else _quoted(letters[0]))
            del letters[: end or 1]
            size = sum(map(len, letters))
        letters.append(more)
        size += len(more)
    return "\r\n ".join((*words, _word(b"".join(letters))))


def _thirds(letters: list[bytes]) -> int:
    """Return the most letters from the first on whose octets are a multiple of three; or 0."""
    size = end = 0
    for number, letter in enumerate(letters, 1):
        size += len(letter)
        if size % 3 == 0:
            end = number
    return end


def _quoted(octets: bytes) -> str:
    return f"=?utf-8?q?{''.join(f'={octet:02X}' for octet in octets)}?="


def _word(octets: bytes) -> str:
    return f"=?utf-8?b?{b2a_base64(octets, newline=False).decode()}?="
