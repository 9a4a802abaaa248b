"""Reads the settings that are more than a number or a text."""

from __future__ import annotations

from typing import Any

from ..errors import ConfigurationError, InvalidMessage
from ..header.address import MAX_ID_DOMAIN, check_address, domain_of
from ..instance import MAX_INSTANCE
from ..scheduling.backoff import FLOOR
from .typed_values import DAY


def read_backoff(key: str, value: Any) -> tuple[float, ...]:
    """Read the longest delays of `OUTBOX_BACKOFF` in seconds, or raise ConfigurationError."""
    if not isinstance(value, (list, tuple)) or not value:
        raise ConfigurationError(f"{key} must be a list of seconds, such as [30, 120, 600]")
    for seconds in value:
        if type(seconds) not in (int, float) or not FLOOR <= seconds <= DAY:
            raise ConfigurationError(
                f"{key} must hold seconds from {FLOOR:g} to {DAY:g}, not {seconds!r}"
            )
    return tuple(map(float, value))


def read_domain(key: str, value: Any) -> str:
    """Read a domain and return it in ASCII, or raise ConfigurationError; "" stays ""."""
    if value == "":
        return ""
    try:
        address = check_address(f"a@{value}" if isinstance(value, str) else value, key)
    except InvalidMessage:
        address = ""
    domain = domain_of(address)
    if "[" in domain or "." not in domain or address.count("@") != 1 or len(domain) > MAX_ID_DOMAIN:
        raise ConfigurationError(f"{key} must be a domain, such as shop.example")
    return domain


def check_instance(name: str) -> None:
    """Raise ConfigurationError if an installation cannot have this name."""
    if len(name) > MAX_INSTANCE or not name.isprintable():
        raise ConfigurationError(
            f"OUTBOX_INSTANCE must have at most {MAX_INSTANCE} printable characters"
        )


def check_helo_name(name: str) -> None:
    """Raise ConfigurationError if EHLO cannot carry this name: with it no email would be sent."""
    if not (name.isascii() and name.isprintable()) or " " in name:
        raise ConfigurationError(
            "OUTBOX_HELO_NAME must be a name in ASCII, without blanks and line ends"
        )
