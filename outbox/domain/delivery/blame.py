"""Whose fault is a halting reply: this email's, or the server's? The next email tells. Pure.

A 421, or "insufficient storage" at MAIL, may be about the server. It may also be about one sender,
one recipient domain or one large message. One reply cannot tell. So the email is set aside as a
suspect. The email that has the least in common with it is tried next.

Two suspects with nothing in common do not show that the server is at fault. It may halt one domain,
one sender and every large message at the same time. An email outside of these classes tells. The
server is blamed only where too many classes at once would be needed to explain the suspects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

from ..header.address import domain_of
from .transaction import Envelope

ENOUGH = 2
"""Suspects that are needed to blame a server. A single one may itself be at fault."""

CLASSES = 4
"""Classes of emails that a server may well halt at the same time."""

CLASSES_SILENT = 1
"""The same where it gave no reply: each further email that is tried may then cost minutes."""

SILENCES = 3
"""Emails in a row without a reply that blame a server, if it takes no other email meanwhile.

More are needed where more batches may be in flight: each may hold one email of the same class.
"""

PATIENCE_MAX = 60.0
"""The most seconds that an email may keep others waiting, whatever speaks for a slow server."""

SMALLER = 0.8
"""An email counts as smaller than the suspects where it has less than this part of their octets."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Traits:
    """What a server may object to in an email: its sender, its recipients' domains, its octets."""

    sender: str
    domains: frozenset[str]
    size: int
    is_fresh: bool = True  # nothing spoke against the email so far

    @classmethod
    def of(cls, envelope: Envelope, size: int, *, is_fresh: bool) -> Traits:
        """Return the traits of an email with this envelope and so many octets."""
        domains = frozenset(map(domain_of, envelope.recipients))
        return cls(sender=envelope.sender.lower(), domains=domains, size=size, is_fresh=is_fresh)


@dataclass(frozen=True, kw_only=True, slots=True)
class Common:
    """What several emails have in common: None, or no domain, where they differ."""

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
        """Count the common traits that this email does not have: the classes that it is not in."""
        return (
            (self.sender is not None and email.sender != self.sender)
            + (bool(self.domains) and not self.domains & email.domains)
            + (email.size < self.size * SMALLER)
        )


class Suspicion:
    """The emails that one server halted since it last gave a verdict on an email itself."""

    def __init__(self, earlier: Traits | None = None, slow: Traits | None = None) -> None:
        """Start with the suspect that an earlier batch left, and the email that was `slow`."""
        self._suspects = [earlier] if earlier is not None else []
        self._slow = [slow] if slow is not None else []
        self._most = CLASSES

    def __bool__(self) -> bool:
        return bool(self._suspects or self._slow)

    def add(self, email: Traits, *, silent: bool = False) -> None:
        """Note that this email was halted too, or that the server was `silent` to it."""
        self._suspects.append(email)
        if silent:
            self._most = CLASSES_SILENT

    def note_slow(self, email: Traits) -> None:
        """Note that the server takes long for this email: emails like it come last.

        They stay last after others were judged, because each of them may keep a process busy.
        """
        self._slow = [email]

    def clear(self) -> None:
        """Note that the server gave a verdict on an email itself: the suspects were to blame."""
        self._suspects.clear()
        self._most = CLASSES

    def could_tell(self, email: Traits) -> bool:
        """Return whether the server may well take this email although it halted all suspects."""
        return _classes_without(self._suspects, email) <= self._most

    def is_enough(self, untried: Iterable[Traits]) -> bool:
        """Return whether there are enough suspects, and no untried email could show them to blame.

        Then the server is to blame.
        """
        return len(self._suspects) >= ENOUGH and not any(map(self.could_tell, untried))

    def pick(self, untried: Sequence[Traits], random: Callable[[], float]) -> int:
        """Return the place of the email that tells most; a random one of equals.

        Many emails that have nothing in common may be halted. If each were picked in its turn, the
        others would wait for all of them. Call this only while there is a suspicion.
        """
        ranks = self._ranks(untried)
        return min(range(len(untried)), key=lambda place: (ranks[place], random()), default=0)

    def order(self, untried: Sequence[Traits], random: Callable[[], float]) -> list[int]:
        """Return the places of the emails in the order in which a slow server should get them.

        Equals come in a random order, as with `pick`. Where no email was slow, the order stays.
        """
        places = list(range(len(untried)))
        ranks = self._ranks(untried) if self._slow else []
        return sorted(places, key=lambda place: (ranks[place], random())) if ranks else places

    def _ranks(self, untried: Sequence[Traits]) -> list[tuple[bool, bool, float, int]]:
        """Return the rank of each email: the server more probably takes one of a lower rank.

        An email's rank is lower, the fewer classes without it explain the suspects. It is lower
        still where nothing spoke against the email before.
        """
        suspects = [*self._suspects, *self._slow]
        each = [Common.of([suspect]) for suspect in suspects]

        def rank(email: Traits) -> tuple[bool, bool, float, int]:
            classes = _classes_without(suspects, email)
            unlike = sum(suspect.lacked_by(email) for suspect in each)
            return classes > self._most, not email.is_fresh, classes, -unlike

        return list(map(rank, untried))


def _classes_without(suspects: Sequence[Traits], email: Traits) -> float:
    """Count the classes that explain all suspects and do not hold this email; inf: none do.

    The largest class is taken first, which gives the lowest count or nearly so.
    """
    left, classes = list(suspects), 0
    while left:
        explained = max(_classes(left, email), key=len, default=[])
        if not explained:
            return inf
        left = [suspect for suspect in left if suspect not in explained]
        classes += 1
    return classes


def _classes(suspects: Sequence[Traits], email: Traits) -> Iterator[list[Traits]]:
    """Yield the suspects of each class that this email is not in: by sender, domain and size.

    A sender's domain is a class too: with VERP each reader's email has its own sender.
    """
    for sender in {one.sender for one in suspects} - {email.sender}:
        yield [one for one in suspects if one.sender == sender]
    for home in {domain_of(one.sender) for one in suspects} - {domain_of(email.sender)}:
        yield [one for one in suspects if domain_of(one.sender) == home]
    for domain in frozenset[str]().union(*(one.domains for one in suspects)) - email.domains:
        yield [one for one in suspects if domain in one.domains]
    yield [one for one in suspects if email.size < one.size * SMALLER]


def patience(waited: float, slowest: float) -> float:
    """Return how many seconds to wait for a silent server while other emails wait.

    A server that took `slowest` seconds for an email may take so long again. An email that has
    `waited` was given up before, so the server probably takes long for it. Neither has an end:
    `slowest` has the wait for the reply to a content in it, which may take ten minutes.
    """
    return min(PATIENCE_MAX, max(2.0 * slowest, waited))


def most_different(common: Common, untried: Sequence[Traits]) -> int:
    """Return the place of the email that lacks most of these traits; the first of several."""
    places = range(len(untried))
    return max(places, key=lambda place: (common.lacked_by(untried[place]), -place), default=0)
