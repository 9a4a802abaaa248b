"""The rules for header fields, and the addresses that they name."""

from __future__ import annotations

import re
from email.errors import InvalidHeaderDefect, MessageError, NonASCIILocalPartDefect
from email.headerregistry import Address
from email.message import Message
from email.policy import EmailPolicy, compat32
from email.policy import default as modern
from email.utils import formataddr, quote
from typing import Any

from ..errors import InvalidMessage
from .address import CONTROL, check_address
from .charsets import NO_CHARSET, is_for_hosts, names_one_for_hosts
from .encoded_words import in_words
from .signatures import refuse_mending

_NAME = re.compile(r"[!-9;-~]+")
_FOLD = re.compile(r"\r?\n(?=[ \t]+[^\s])")
_PLAIN = re.compile(
    r"(?:(?P<name>[A-Za-z0-9 ]*[A-Za-z0-9]) <)?"
    r"(?P<local>[A-Za-z0-9_+-]+(?:\.[A-Za-z0-9_+-]+)*)@(?P<domain>[A-Za-z0-9.-]+)"
    r"(?(name)>)"
)
_FORBIDDEN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")

FOLD_AT = 78
"""Characters of a line that is folded here (RFC 5322 §2.1.1: SHOULD)."""

MAX_HEADER = 32_768
MAX_PARAMETERS = 4_000
MAX_AUTHORS = 4_000
MAX_MAILBOX = 998
"""The most characters of a header, of a header with MIME parameters, of From, Sender or Reply-To,
and of one address with its name.

The time of CPython's parser grows with their square or worse. For a long text, which may be what a
visitor typed, it takes minutes. A list of recipients may have any length.
"""

MAX_ENCODED = 65_536
"""The most characters of a message's headers that have encoded words, without lists of addresses.
They take CPython a second for every 25,000 characters."""

MAX_COMMAS = 100
"""The most commas in a list for each "@". CPython takes a millisecond even for an empty entry."""

MAX_PARAMETER_NAME = 40
"""The most characters of a MIME parameter's name: far more than `modification-date` has.

Where a name leaves no room on a line for its value (RFC 2231 §3), CPython's folding never ends.
"""
_LONG_NAME = re.compile(rf'[^\s;="]{{{MAX_PARAMETER_NAME + 1},}}')

LEAKS = (MessageError, LookupError, ValueError, TypeError, AttributeError, RecursionError)
"""What CPython's parser and generator raise for a message that they cannot read or write."""

NO_LIST = "is not a list of addresses (RFC 5322 §3.4)"

ORIGINATORS = ("From", "Sender", "Reply-To")
DESTINATIONS = ("To", "Cc", "Bcc")
PARAMETERISED = ("content-type", "content-disposition")
_AUTHORS = frozenset(map(str.lower, ORIGINATORS))
MAILBOXES = frozenset(
    f"{again}{name.lower()}" for name in (*ORIGINATORS, *DESTINATIONS) for again in ("", "resent-")
)


def check_headers(message: Message[Any, Any]) -> None:
    """Refuse every header, of every part, that could begin another one (header injection).

    The only line break that is allowed is legal folding, as a parser leaves it in a value.
    """
    encoded = 0
    for part in message.walk():
        for name, value in part.raw_items():
            if not _NAME.fullmatch(name):
                raise InvalidMessage("header", "a name has characters that RFC 5322 §2.2 forbids")
            _check_length(name, _whole(value))
            _check_parameters(name, text := str(value))
            if "=?" in text and name.lower() not in MAILBOXES:
                encoded += len(text)
                if encoded > MAX_ENCODED:
                    rule = f"more than {MAX_ENCODED} characters of all headers are encoded"
                    raise InvalidMessage("header", rule)
            if _FORBIDDEN.search(unfolded(_decoded(part, name, value))):
                raise InvalidMessage(name, "must not contain control characters or line breaks")
        if is_for_hosts(str(part.get_content_charset(""))):
            raise InvalidMessage("content-type", NO_CHARSET)
        filename = part.get_filename()
        if filename and CONTROL.search(filename):
            raise InvalidMessage("filename", "must not contain control characters or line breaks")


def _whole(value: object) -> str:
    """Return a value as it was given. A parsed list's `str` has only what the parser understood."""
    return str(getattr(value, "_parse_tree", value) if hasattr(value, "addresses") else value)


def _check_length(field: str, value: str) -> None:
    """Refuse a value that would take too long to read."""
    name = field.lower()
    if name in MAILBOXES:
        if any(len(mailbox) > MAX_MAILBOX for mailbox in value.split(",")):
            rule = f"an address with its name has at most {MAX_MAILBOX} characters"
            raise InvalidMessage(name, rule)
        if name.removeprefix("resent-") in _AUTHORS and len(value) > MAX_AUTHORS:
            raise InvalidMessage(name, f"has more than {MAX_AUTHORS} characters")
        if value.count(",") > MAX_COMMAS * (value.count("@") + 1):
            raise InvalidMessage(name, NO_LIST)
    elif len(value) > (most := MAX_PARAMETERS if name.startswith("content-") else MAX_HEADER):
        raise InvalidMessage(field, f"has more than {most} characters")


def _check_parameters(field: str, value: str) -> None:
    """Refuse a parameter that could never be written."""
    if field.lower() not in PARAMETERISED or not _LONG_NAME.search(value):
        return
    names = modern.header_factory(field, unfolded(value)).params
    if any(len(name) > MAX_PARAMETER_NAME for name in names):
        raise InvalidMessage(
            field, f"a parameter's name has at most {MAX_PARAMETER_NAME} characters"
        )


def _decoded(part: Message[Any, Any], name: str, value: object) -> str:
    """Return the value, followed by its decoded form where the policy decodes encoded words.

    A parsed message keeps the text as it came. When it is written, the text may be decoded and
    folded again. A line break in an encoded word then becomes one on the wire (CVE-2024-6923).
    """
    text = str(value)
    if "=?" in text and isinstance(part.policy, EmailPolicy):
        if names_one_for_hosts(text):
            raise InvalidMessage(name, NO_CHARSET)
        return text + str(part.policy.header_fetch_parse(name, text))
    return text


def unfolded(value: str) -> str:
    """Return the value without its legal folds (RFC 5322 §2.2.3); any other line break stays."""
    return _FOLD.sub("", value)


def addresses(message: Message[Any, Any], *names: str) -> list[Address]:
    """Return the addresses in the headers of these names, in order."""
    found: list[Address] = []
    for name in names:
        for value in message.get_all(name, []):
            found.extend(parse_addresses(name, value))
    return found


def plain_address(value: str) -> tuple[str, str] | None:
    """Return the name and the address of a value that needs no parser, or None.

    Nearly no value needs a parser, and CPython's takes most of a millisecond.
    """
    found = _PLAIN.fullmatch(value)
    return (found["name"] or "", f"{found['local']}@{found['domain']}") if found else None


def parse_addresses(name: str, value: Any) -> tuple[Address, ...]:
    """Return the addresses in the value of an address header, or raise InvalidMessage."""
    plain = _PLAIN.fullmatch(value) if type(value) is str else None
    if plain:
        return (Address(plain["name"] or "", plain["local"], plain["domain"]),)
    field = name.lower()
    if names_one_for_hosts(str(value)):
        raise InvalidMessage(field, NO_CHARSET)
    try:
        header = value
        if not hasattr(value, "addresses"):
            header = modern.header_factory("To", unfolded(str(value)))
        broken = [
            defect
            for defect in header.defects
            if isinstance(defect, InvalidHeaderDefect)
            and not isinstance(defect, NonASCIILocalPartDefect)
        ]
        parsed: tuple[Address, ...] = header.addresses
    except LEAKS:
        raise InvalidMessage(field, NO_LIST) from None
    if broken:
        raise InvalidMessage(field, NO_LIST)
    return parsed


def international(message: Message[Any, Any]) -> bool:
    """Write international domains in ASCII; return whether an address still needs SMTPUTF8.

    Where one does, names are written in UTF-8 too. CPython would leave out the quotes that they
    need, and a name would be read as another address.
    """
    found = {name: _people(message, name) for name in (*ORIGINATORS, "To", "Cc")}
    needs_utf8 = any(not wire.isascii() for pairs in found.values() for _, wire in pairs or ())
    if needs_utf8:
        found = {name: _people(message, name, all_of_them=True) for name in found}
        message.policy = compat32  # keeps a header as it is set
    refuse_mending(message, *(name for name, pairs in found.items() if pairs is not None))
    for name, pairs in found.items():
        if pairs is None:
            continue
        values = [written(*pair, utf8=needs_utf8) for pair in pairs]
        if len(message.get_all(name, [])) > 1:  # RFC 5322 §3.6 allows one
            del message[name]
            message[name] = ""
        separator = ",\r\n " if needs_utf8 and sum(map(len, values)) > FOLD_AT else ", "
        message.replace_header(name, separator.join(values))
    return needs_utf8


def _people(
    message: Message[Any, Any], name: str, *, all_of_them: bool = False
) -> list[tuple[str, str]] | None:
    """Return the (name, address) pairs of a header that must be rewritten, or None."""
    values = message.get_all(name, [])
    if not values or (not all_of_them and all(str(value).isascii() for value in values)):
        return None
    parsed = addresses(message, name)
    # The old policy would hide a whole address in an encoded word, together with its name.
    raw = not isinstance(message.policy, EmailPolicy) and all(type(v) is str for v in values)
    if not all_of_them and not raw and all(address.addr_spec.isascii() for address in parsed):
        return None
    if not parsed:
        return None
    return [(a.display_name, check_address(a.addr_spec, name.lower())) for a in parsed]


def written(name: str, address: str, *, utf8: bool = False) -> str:
    """Return one address with its name for a header; `utf8` where an address needs SMTPUTF8.

    A name that looks like an encoded word is encoded: mail programs decode it in quotes too.
    """
    if not name:
        return address
    if "=?" in name:
        return f"{in_words(name)} <{address}>"
    if address.isascii() and (not utf8 or name.isascii()):
        return formataddr((name if name.isascii() else in_words(name), address))
    return f'"{quote(name)}" <{address}>'
