"""An address that a test names, in whatever form its author writes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..domain.errors import InvalidMessage
from ..domain.header.address import check_address


def bare_addresses(name: str, given: str | Sequence[str]) -> tuple[str, ...]:
    """Return the addresses; raise ValueError, with the name of the argument, for anything else."""
    is_list = isinstance(given, Iterable) and not isinstance(given, str)
    found: tuple[str, ...] = tuple(given) if is_list else (given,)  # type: ignore[assignment]
    for one in found:
        try:
            check_address(one, name)
        except InvalidMessage as error:
            told = f"{name}={one!r} is no address without a name, such as ada@shop.example"
            raise ValueError(f"{told}: {error.rule}") from None
    return found


def on_the_wire(address: str) -> str:
    """Return the address as servers see it, its domain in ASCII, without regard to case."""
    try:
        return check_address(address, "to").lower()
    except InvalidMessage:
        return address.lower()
