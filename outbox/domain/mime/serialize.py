"""Writes a message as octets: what its author wrote stays as it is, and the rest is folded."""

from __future__ import annotations

import re
from email.generator import BytesGenerator
from email.header import Header
from email.message import Message
from email.policy import SMTPUTF8, EmailPolicy, Policy
from io import BytesIO
from typing import Any

from ..errors import InvalidMessage
from ..header import fields
from ..header.address import CONTROL
from ..header.fields import FOLD_AT, MAILBOXES, parse_addresses, unfolded
from ..header.signatures import is_dkim_signed
from .line_endings import has_long_line, normalise
from .structure import transfer_encoding
from .transfer_encoding import IDENTITIES

_WITH_PARAMETERS = frozenset({"content-type", "content-disposition"})
_SPECIAL = re.compile(r'[()<>@,:;.\\"\[\]]')
"""Characters with which a name stands in quotes (RFC 5322 §3.2.3)."""
_ONE_LINE = re.compile(r"[!-~]+(?: [!-~]+)*")


class Given(Message):
    """A parsed message, whose body is written as it was given where that is known."""

    body: bytes | None = None


def flatten(message: Message[Any, Any], *, smtputf8: bool) -> bytes:
    """Return the message with CRLF line ends; its policy encodes what must be encoded."""
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
        return value  # nearly every value fits, and CPython's folding takes fifty microseconds
    lines = Header(value, header_name=name).encode(linesep="\r\n", maxlinelen=FOLD_AT)
    return lines.removeprefix("\r\n ")  # an empty first line gains nothing


def _refolded(name: str, value: str, *, is_signed: bool) -> bytes:
    """Return the header folded again, or raise InvalidMessage for a signed or too long one.

    An encoded word would fit the line, but no receiver decodes it in a URL.
    """
    field = f"{name}: {folded(name, unfolded(value))}\r\n".encode()
    if is_signed or has_long_line(field):
        raise InvalidMessage(name.lower(), "has a line over 998 octets (RFC 5322 §2.1.1)")
    return field


def _has_quotes(value: Any) -> bool:
    """Return whether a header names a person or a group whose name stands in quotes."""
    named = (*getattr(value, "addresses", ()), *getattr(value, "groups", ()))
    return any(_SPECIAL.search(one.display_name or "") for one in named)


def _quoted(name: str, value: Any, written: bytes, *, is_signed: bool) -> bytes:
    """Return an address header with its quotes, or raise InvalidMessage where that cannot be.

    CPython leaves them out where a name in ASCII is too long for a line. A comma in the name, which
    a visitor may have chosen, then begins another address.
    """
    people = [fields.written(one.display_name, one.addr_spec) for one in value.addresses]
    has_groups = any(group.display_name is not None for group in value.groups)
    if not is_signed and not has_groups and (text := ", ".join(people)).isascii():
        field = f"{name}: {folded(name, text)}\r\n".encode()
        if not has_long_line(field):
            return field
    found = parse_addresses(name, written.decode("utf-8").partition(": ")[2].rstrip())
    if [one.addr_spec for one in found] != [one.addr_spec for one in value.addresses]:
        rule = "has a name that would be read as another address: give a shorter one"
        raise InvalidMessage(name.lower(), rule)
    return written


class _Generator(BytesGenerator):
    """CPython's generator, except that headers which need no encoding stay as they are.

    CPython's policies fold parsed headers again, at 78 columns and at other places than the author
    did. That breaks signatures over headers, and RFC 5322 allows 998.
    """

    policy: Policy[Any]
    _fp: BytesIO

    def _write_headers(self, msg: Message[Any, Any]) -> None:
        is_signed = is_dkim_signed(msg)
        for name, value in msg.raw_items():
            self._fp.write(self._header(name, value, is_signed=is_signed))
        self._fp.write(b"\r\n")

    def _dispatch(self, msg: Message[Any, Any]) -> None:
        if isinstance(msg, Given) and msg.body is not None:
            self._fp.write(msg.body)
        else:
            super()._dispatch(msg)  # type: ignore[misc]

    def _encode(self, s: str) -> bytes:
        """Return the octets of an attached message as it was given; CPython takes ASCII alone."""
        return s.encode("ascii", "surrogateescape")

    def _handle_message_delivery_status(self, msg: Message[Any, Any]) -> None:
        """Write a report that is a text as it is; CPython writes only one that was parsed."""
        if isinstance(msg.get_payload(), list):
            super()._handle_message_delivery_status(msg)  # type: ignore[misc]
        elif transfer_encoding(msg) in IDENTITIES:
            self._handle_message(msg)  # type: ignore[attr-defined]
        else:
            raise InvalidMessage("message", "a message/delivery-status is 7bit (RFC 3464 §2.1)")

    def _header(self, name: str, value: Any, *, is_signed: bool) -> bytes:
        if type(value) is str and (value.isascii() or self._as_it_is(value)):
            field = normalise(f"{name}: {value}".encode())
            if not has_long_line(field):
                return field
            # CPython splits a parameter that is too long (RFC 2231 §3).
            if value.isascii() and (is_signed or name.lower() not in _WITH_PARAMETERS):
                return _refolded(name, value, is_signed=is_signed)
        written: bytes = self.policy.fold_binary(name, value)
        if b"\r\n" in written[:-2] and _has_quotes(value):
            return _quoted(name, value, written, is_signed=is_signed)
        text = str(value)
        if b"=?" in written and text.isascii() and "=?" not in text:
            plain = f"{name}: {folded(name, text)}\r\n".encode()
            if not has_long_line(plain):
                return plain
            if name.lower() in MAILBOXES:  # a stray comma may have become an address
                parse_addresses(name, written.decode("ascii").partition(": ")[2].rstrip())
        return written

    def _as_it_is(self, value: str) -> bool:
        """Whether a value may stay: SMTPUTF8 allows UTF-8, but not octets that cannot be read."""
        return getattr(self.policy, "utf8", False) and not CONTROL.search(unfolded(value))
