"""Whether an address stands in a text: in anybody's, or in one that is about this very person."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache

import idna

_LONGER_LOCAL_PART = re.compile(r"[^\W_]|[.']")
"""What makes `jsmith@…` of `smith@…`. Not `-` and `_`: keys as `welcome-smith@…` and senders for
bounces as `bounce-smith=…` are more than such people, and an erasure rather takes too much."""
_DOMAIN_GOES_ON = re.compile(r"[\w\-]*(?:\.[\w\-]+)*")
_TOP_LEVEL = re.compile(r"(?:[^\W\d_]+|xn--[a-z0-9\-]+)")
"""No top-level domain has a digit, or a hyphen but for that of an international name."""


def names(text: str | None, address: str) -> bool:
    """Return whether the address stands in the text; case does not count.

    It may stand there as `local=domain`, as in a sender whose bounces tell who it was (VERP). It
    may not be a part of another address, as `smith@corp.example` is of `jsmith@corp.example`.
    """
    if text is None:
        return False
    plain = _plain(text)
    return any(_stands_alone(plain, form) for form in _forms(address))


def stands_in(text: str | None, address: str, *, others: Iterable[str] = ()) -> bool:
    """Return whether the address stands in a text about this very person, whatever is beside it.

    `order.smith@…` and `smith@….pdf` name smith@… in an email to that person, though anywhere else
    they may be somebody else. The person may share the email with `others`: a longer address of
    these, as j.smith@…, is not this person's.
    """
    if text is None:
        return False
    plain, mine = _plain(text), _forms(address)
    theirs = {form for other in others for form in _forms(other)}.difference(mine)
    for form in sorted(theirs, key=len, reverse=True):
        if any(own in form for own in mine):
            plain = plain.replace(form, " ")
    return any(own in plain for own in mine)


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text).lower()


@lru_cache(maxsize=64)
def _forms(address: str) -> tuple[str, ...]:
    """Return how the address may be written: a domain that is stored as `xn--…` has two ways."""
    local, _, domain = _plain(address).rpartition("@")
    domains = [domain]
    with suppress(UnicodeError):  # no international name, as an address literal is none
        domains.append(_plain(idna.decode(domain)))
    return tuple(f"{local}{mark}{one}" for one in dict.fromkeys(domains) for mark in "@=")


def _stands_alone(text: str, form: str) -> bool:
    start = text.find(form)
    while start >= 0:
        end = start + len(form)
        begins_before = start > 0 and _LONGER_LOCAL_PART.match(text, start - 1)
        if not begins_before and not _has_longer_domain(text, end):
            return True
        start = text.find(form, start + 1)
    return False


def _has_longer_domain(text: str, end: int) -> bool:
    """Whether another domain goes on here: `.au` makes one, `-17` and a full stop do not."""
    more = _DOMAIN_GOES_ON.match(text, end)
    if more is None or not more[0]:
        return False
    last = text[max(text.rfind(mark, 0, more.end()) for mark in ".@=") + 1 : more.end()]
    return _TOP_LEVEL.fullmatch(last) is not None
