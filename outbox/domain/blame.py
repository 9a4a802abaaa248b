"""Whose fault is a halting reply: this email's, or the server's? The next email tells. Pure.

A 421, or "insufficient storage" at MAIL, may be about the server, and it may be about one sender,
one recipient domain or one large message. One reply cannot tell. So the email is set aside as a
suspect, and the email is tried next that has the least in common with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .address import domain_of
from .verdict import Envelope

ENOUGH = 2
"""Suspects that are needed to blame a server. One alone proves nothing."""

SMALLER = 2
"""An email counts as smaller than the suspects where it has less than this part of their octets."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Traits:
    """What a server may object to in an email: its sender, its recipients' domains, its octets."""

    sender: str
    domains: frozenset[str]
    size: int

    @classmethod
    def of(cls, envelope: Envelope, size: int) -> Traits:
        """Return the traits of an email with this envelope and so many octets."""
        domains = frozenset(map(domain_of, envelope.recipients))
        return cls(sender=envelope.sender.lower(), domains=domains, size=size)


@dataclass(frozen=True, kw_only=True, slots=True)
class Common:
    """What all of some emails have in common: None, or no domain, where they differ."""

    sender: str | None
    domains: frozenset[str]
    size: int  # the smallest one's

    @classmethod
    def of(cls, emails: Iterable[Traits]) -> Common:
        """Return what these emails, at least one, have in common."""
        all_ = list(emails)
        senders = {one.sender for one in all_}
        return cls(
            sender=senders.pop() if len(senders) == 1 else None,
            domains=frozenset.intersection(*(one.domains for one in all_)),
            size=min(one.size for one in all_),
        )

    def lacked_by(self, email: Traits) -> int:
        """Count the common traits that this email does not have: it is outside of that class."""
        return (
            (self.sender is not None and email.sender != self.sender)
            + (bool(self.domains) and not self.domains & email.domains)
            + (email.size * SMALLER < self.size)
        )


class Suspicion:
    """The emails that one server answered with a halting reply, since it judged one for itself."""

    def __init__(self, earlier: Traits | None = None) -> None:
        """Go on from the suspect that an earlier batch left, if there is one."""
        self._suspects = [earlier] if earlier is not None else []

    def __bool__(self) -> bool:
        return bool(self._suspects)

    @property
    def common(self) -> Common:
        """What the suspects have in common. Ask only while there are suspects."""
        return Common.of(self._suspects)

    def add(self, email: Traits) -> None:
        """Note that this email was halted too."""
        self._suspects.append(email)

    def clear(self) -> None:
        """Note that the server judged an email for itself: the suspects were to blame."""
        self._suspects.clear()

    def is_enough(self, untried: Sequence[Traits]) -> bool:
        """Return whether no email that is left could show that the suspects are to blame."""
        if len(self._suspects) < ENOUGH:
            return False
        common = self.common
        return not any(common.lacked_by(email) for email in untried)


def most_different(common: Common, untried: Sequence[Traits]) -> int:
    """Return the place of the email that lacks most of these traits; the first of several."""
    places = range(len(untried))
    return max(places, key=lambda place: (common.lacked_by(untried[place]), -place), default=0)
