"""Reads the people whom a message names: checked addresses with their names."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...domain.errors import InvalidMessage
from ...domain.header.address import FORM, check_address, is_ordinary
from ...domain.header.fields import MAX_MAILBOX, parse_addresses, plain_address
from .checked_text import as_text, clean

Address = str | tuple[str, str]
Pair = tuple[str, str]
"""A name, which may be empty, and a checked address."""

_FLATTENED = re.compile(r'(?!"(?:[^"\\]|\\.)*" <)(?P<name>[^<>]*) <(?P<address>[^<>]+)>')
"""The text that Flask-Mail's constructor makes of a sender pair, without quoting the name.

A name that is one quoted string does not match: somebody wrote it by RFC 5322.
"""


def pairs_of(field: str, addresses: Iterable[Address]) -> list[Pair]:
    """Return the people in a list. InvalidMessage names the place."""
    if isinstance(addresses, str):
        raise InvalidMessage(field, "must be a list of addresses, and not one text")
    pairs = []
    for place, address in enumerate(addresses):
        try:
            pairs.append(pair_of(field, address))
        except InvalidMessage as error:
            raise error.at(field, place, address) from None
    return pairs


def pair_of(field: str, address: Address) -> Pair:
    """Return the name and the checked address of one person. Raises InvalidMessage."""
    if type(address) is str and is_ordinary(address):
        return "", address
    if not isinstance(address, tuple):
        text = clean(field, as_text(field, address))
        flat = _FLATTENED.fullmatch(text) if field == "sender" else None
        if flat is None:
            return _parsed(field, text)
        address = (flat["name"], flat["address"])
    if len(address) != 2:
        raise InvalidMessage(field, "a pair is (name, address)")
    name, address = address
    name = as_text(field, name or "")
    _check_entry(field, name)
    return clean(field, name), check_address(address, field)


def _parsed(field: str, text: str) -> Pair:
    _check_entry(field, text)
    plain = plain_address(text)
    if plain is not None:
        return plain[0], check_address(plain[1], field)
    if "@" not in text:
        raise InvalidMessage(field, FORM)
    try:
        found = parse_addresses(field, text)
    except InvalidMessage:
        raise InvalidMessage(field, "is not an address (RFC 5322 §3.4)") from None
    if len(found) != 1:
        raise InvalidMessage(field, "each entry is one address")
    return clean(field, found[0].display_name), check_address(found[0].addr_spec, field)


def _check_entry(field: str, text: str) -> None:
    if len(text) > MAX_MAILBOX:
        raise InvalidMessage(field, f"each entry has at most {MAX_MAILBOX} characters")
