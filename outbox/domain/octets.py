"""A message becomes octets: what its author wrote stays as it was, and the rest is folded."""

from __future__ import annotations

import re
from binascii import b2a_base64
from email.generator import BytesGenerator
from email.header import Header
from email.message import Message
from email.policy import SMTPUTF8, EmailPolicy, Policy
from io import BytesIO
from typing import Any

from .address import CONTROL
from .headers import FOLD_AT, MAILBOXES, parse_addresses, unfolded
from .wire import has_long_line, normalise

_WORD = 42
"""Octets of one encoded word, so that it fits the line of any name that we write so."""

_ONE_LINE = re.compile(r"[!-~]+(?: [!-~]+)*")


def flatten(message: Message[Any, Any], *, smtputf8: bool) -> bytes:
    """Return the message with CRLF line ends; its policy writes what has to be encoded."""
    policy = message.policy.clone(linesep="\r\n", mangle_from_=False)
    if isinstance(policy, EmailPolicy):
        policy = policy.clone(utf8=smtputf8)
    elif smtputf8:
        policy = SMTPUTF8  # the old policy would make an encoded word of the address
    buffer = BytesIO()
    _Generator(buffer, mangle_from_=False, policy=policy).flatten(message)
    return normalise(buffer.getvalue())


def folded(name: str, value: str) -> str:
    """Return an ASCII value folded at its blanks; a word that is too long for a line stays whole.

    An encoded word would fit the line, but in a URL or an identifier no receiver decodes it.
    """
    if len(name) + 2 + len(value) <= FOLD_AT and _ONE_LINE.fullmatch(value):
        return value  # as nearly every value is, and CPython's folding takes fifty microseconds
    lines = Header(value, header_name=name).encode(linesep="\r\n", maxlinelen=FOLD_AT)
    return lines.removeprefix("\r\n ")  # nothing is gained by an empty first line


def encoded_words(text: str) -> str:
    """Return a text as encoded words, one a line (RFC 2047 §2), each of whole characters.

    CPython's own looks for the shortest encoding: for each reader of a newsletter that is too long.
    """
    words = list[str]()
    octets = b""
    for letter in text:
        more = letter.encode()
        if len(octets) + len(more) > _WORD:
            words.append(_word(octets))
            octets = b""
        octets += more
    return "\r\n ".join((*words, _word(octets)))


def _word(octets: bytes) -> str:
    return f"=?utf-8?b?{b2a_base64(octets, newline=False).decode()}?="


class _Generator(BytesGenerator):
    """CPython's, but for headers that need nothing.

    Its policies fold anew what a parser has read, at 78 columns and at other places than the
    author did: that breaks signatures over headers, and RFC 5322 allows 998.
    """

    policy: Policy[Any]
    _fp: BytesIO

    def _write_headers(self, msg: Message[Any, Any]) -> None:
        for name, value in msg.raw_items():
            self._fp.write(self._header(name, value))
        self._fp.write(b"\r\n")

    def _header(self, name: str, value: Any) -> bytes:
        if type(value) is str and (value.isascii() or self._as_it_is(value)):
            field = normalise(f"{name}: {value}".encode())
            if not has_long_line(field):
                return field
        written: bytes = self.policy.fold_binary(name, value)
        text = str(value)
        if b"=?" in written and text.isascii() and "=?" not in text:
            plain = f"{name}: {folded(name, text)}\r\n".encode()
            if not has_long_line(plain):
                return plain
            if name.lower() in MAILBOXES:  # a comma too many may have become somebody's address
                parse_addresses(name, written.decode("ascii").partition(": ")[2].rstrip())
        return written

    def _as_it_is(self, value: str) -> bool:
        """Under SMTPUTF8 a header may be UTF-8, but not hold octets that no parser could read."""
        return getattr(self.policy, "utf8", False) and not CONTROL.search(unfolded(value))
