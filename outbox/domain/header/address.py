"""What an address of the envelope may be (RFC 5321 §4.1.2, RFC 6531 §3.3)."""

from __future__ import annotations

import re
from functools import lru_cache
from unicodedata import normalize

import idna

from ..errors import InvalidMessage

MAX_LOCAL = 64
MAX_DOMAIN = 255
MAX_ADDRESS = 254
"""Octets (RFC 5321 §4.5.3.1; a path is 256 octets with its angle brackets)."""

MAX_RECIPIENTS = 10_000
"""The most recipients of one email. The columns that count them hold up to 32,767."""

MAX_ID_DOMAIN = 180
"""Characters: with the part before the domain a Message-ID stays under 250."""

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Control characters, Unicode's line separators and lone surrogates."""

# Not U+FFFD: a parser puts it in the place of octets that it could not read, so the address with it
# is somebody else's.
_ATOM = r"(?:(?![\s\ufffd])[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-\u00a1-\U0010ffff])+"
_DOT_STRING = re.compile(rf"{_ATOM}(\.{_ATOM})*")
_QUOTED_STRING = re.compile(r'"([^"\\\ufffd]|\\[\x20-\x7e])*"')
_ENCODED = re.compile(r"=\?[^?]*\?[A-Za-z]\?")
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9\-]{0,61}[A-Za-z0-9])?")
_ORDINARY = re.compile(
    rf"(?=.{{1,{MAX_ADDRESS}}}\Z)(?=[^@]{{1,{MAX_LOCAL}}}@)"
    rf"[A-Za-z0-9_+-]+(?:\.[A-Za-z0-9_+-]+)*@{_LABEL.pattern}(?:\.{_LABEL.pattern})*"
)
FORM = "an address has the form local-part@domain"
_ALONE = "give the address alone, without a name or angle brackets"
_NO_NAME = (
    "the domain is not a valid international name (UTS 46, IDNA 2008);"
    " if it exists all the same, give its ASCII form (xn--…)"
)
_LITERAL = re.compile(r"\[((?i:IPv6):)?[0-9A-Fa-f:.]+\]")


def is_ordinary(address: str) -> bool:
    """Return whether the address is valid and needs no quoting, no IDNA and no parser."""
    return _ORDINARY.fullmatch(address) is not None


def check_address(address: object, field: str) -> str:
    """Return the address for the wire, its domain in ASCII (IDNA), or raise InvalidMessage."""
    if not isinstance(address, str):
        raise InvalidMessage(field, "an address must be text")
    if is_ordinary(address):
        return address
    if len(address) > MAX_LOCAL + 1 + MAX_DOMAIN:  # the checks below are slower
        raise InvalidMessage(field, f"an address is at most {MAX_ADDRESS} octets")
    if CONTROL.search(address):
        raise InvalidMessage(field, "an address must not contain control characters or line breaks")
    local, at, domain = address.rpartition("@")
    if not at or not local or not domain:
        raise InvalidMessage(field, FORM)
    if not (_DOT_STRING.fullmatch(local) or _QUOTED_STRING.fullmatch(local)):
        named = "<" in local and domain.endswith(">")
        rule = _ALONE if named else "the local part has characters that need quoting"
        raise InvalidMessage(field, rule)
    if _ENCODED.search(local):  # some mail programs decode it there too, and see another address
        raise InvalidMessage(field, "an address must not contain an encoded word (RFC 2047 §5)")
    if len(local.encode()) > MAX_LOCAL:
        raise InvalidMessage(field, f"the local part is over {MAX_LOCAL} octets")
    wire = f"{local}@{_domain(domain, field)}"
    if len(wire.encode()) > MAX_ADDRESS:
        raise InvalidMessage(field, f"an address is at most {MAX_ADDRESS} octets")
    return wire


def _domain(domain: str, field: str) -> str:
    if _LITERAL.fullmatch(domain):
        return domain
    if len(domain) > MAX_DOMAIN:
        raise InvalidMessage(field, f"the domain is over {MAX_DOMAIN} octets")
    if not domain.isascii():
        try:
            domain = idna.encode(domain, uts46=True, std3_rules=True).decode("ascii")
        except UnicodeError:
            raise InvalidMessage(field, _NO_NAME) from None
    if not all(map(_LABEL.fullmatch, domain.split("."))):
        raise InvalidMessage(field, "the domain is not a valid host name")
    return domain


def domain_of(address: str) -> str:
    """Return the address's domain in lower case."""
    return address.rpartition("@")[2].lower()


@lru_cache(maxsize=64)
def id_domain(address: str) -> str:
    """Return the right side of a Message-ID for this sender, cut so that the whole stays short.

    The results are cached because an app has few senders.
    """
    return domain_of(address).strip("[]")[-MAX_ID_DOMAIN:].lstrip(".-")


def suppression_key(address: str) -> str:
    """Return what the suppression list compares: the whole address without regard to case.

    RFC 5321 lets a local part be case-sensitive, but no provider in use tells two mailboxes apart
    by case. And a person who asked for no email must get none. Accented letters are composed, as
    RFC 6532 §3.1 wants them: an address that was copied may have each accent by itself.
    """
    return address.lower() if address.isascii() else normalize("NFC", address.lower())


def spellings(address: str) -> tuple[str, ...]:
    """Return the keys under which rows may have an address; the first is `suppression_key`'s.

    Earlier versions wrote accents as they were given: mostly composed, or else each by itself.
    """
    key = suppression_key(address)
    return (key,) if key.isascii() else tuple(dict.fromkeys((key, normalize("NFD", key))))
