"""The rules for header fields, and the addresses that they name."""

from __future__ import annotations

import re
from email.errors import HeaderParseError, InvalidHeaderDefect, NonASCIILocalPartDefect
from email.headerregistry import Address
from email.message import Message
from email.policy import default as modern
from typing import Any

from .address import CONTROL, check_address
from .errors import InvalidMessage

_NAME = re.compile(r"[!-9;-~]+")
_FOLD = re.compile(r"\r?\n(?=[ \t]+[^\s])")
_PLAIN = re.compile(
    r"(?:(?P<name>[A-Za-z0-9 ]*[A-Za-z0-9]) <)?"
    r"(?P<local>[A-Za-z0-9_+-]+(?:\.[A-Za-z0-9_+-]+)*)@(?P<domain>[A-Za-z0-9.-]+)"
    r"(?(name)>)"
)
_FORBIDDEN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\u2028\u2029]")

ORIGINATORS = ("From", "Sender", "Reply-To")
DESTINATIONS = ("To", "Cc", "Bcc")


def check_headers(message: Message[Any, Any]) -> None:
    """Refuse every header, of every part, that could begin another one (header injection).

    Legal folding, as a parser leaves it in a value, is the only line break that passes.
    """
    for part in message.walk():
        for name, value in part.raw_items():
            if not _NAME.fullmatch(name):
                raise InvalidMessage("header", "a name has characters that RFC 5322 §2.2 forbids")
            if _FORBIDDEN.search(_FOLD.sub("", str(value))):
                raise InvalidMessage(name, "must not contain control characters or line breaks")
        filename = part.get_filename()
        if filename and CONTROL.search(filename):
            raise InvalidMessage("filename", "must not contain control characters or line breaks")


def addresses(message: Message[Any, Any], *names: str) -> list[Address]:
    """Return the addresses in the headers of these names, in order."""
    found: list[Address] = []
    for name in names:
        for value in message.get_all(name, []):
            found.extend(parse_addresses(name, value))
    return found


def parse_addresses(name: str, value: Any) -> tuple[Address, ...]:
    """Return the addresses in the value of an address header, or raise InvalidMessage."""
    plain = _PLAIN.fullmatch(value) if type(value) is str else None
    if plain:  # nearly every address is so, and CPython's parser takes most of a millisecond
        return (Address(plain["name"] or "", plain["local"], plain["domain"]),)
    field = name.lower()
    try:
        header = value if hasattr(value, "addresses") else modern.header_factory("To", str(value))
        broken = [
            defect
            for defect in header.defects
            if isinstance(defect, InvalidHeaderDefect)
            and not isinstance(defect, NonASCIILocalPartDefect)
        ]
        parsed: tuple[Address, ...] = header.addresses
    except (HeaderParseError, IndexError, ValueError):  # CPython's parser leaks the latter two
        raise InvalidMessage(field, "is not a list of addresses (RFC 5322 §3.4)") from None
    if broken:
        raise InvalidMessage(field, "is not a list of addresses (RFC 5322 §3.4)")
    return parsed


def international(message: Message[Any, Any]) -> bool:
    """Write international domains in ASCII; return whether an address still needs SMTPUTF8."""
    needs_utf8 = False
    for name in (*ORIGINATORS, "To", "Cc"):
        for value in message.get_all(name, []):
            if str(value).isascii():
                continue
            parsed = parse_addresses(name, value)
            if all(address.addr_spec.isascii() for address in parsed):
                continue
            wired = [_ascii_domain(name.lower(), address) for address in parsed]
            needs_utf8 |= not all(address.addr_spec.isascii() for address in wired)
            message.replace_header(name, ", ".join(map(str, wired)))
    return needs_utf8


def _ascii_domain(field: str, address: Address) -> Address:
    wire = check_address(address.addr_spec, field)
    local, _, domain = wire.rpartition("@")
    return Address(display_name=address.display_name, username=local, domain=domain)
