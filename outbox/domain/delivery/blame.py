"""Whose fault is a halting reply: this email's, or the server's? The next email tells. Pure.

A 421, or "insufficient storage" at MAIL, may be about the server, and it may be about one sender,
one recipient domain or one large message. One reply cannot tell. So the email is set aside as a
suspect, and the email is tried next that has the least in common with it.

Two in a row that have nothing in common do not show that it is the server either: it may halt one
domain, and at the same time one sender, and whatever is large. An email that is in no such class
tells. Only where too many classes at once would be needed to explain the suspects is it the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

from ..header.address import domain_of
from .transaction import Envelope

ENOUGH = 2
"""Suspects that are needed to blame a server. One alone proves nothing."""

CLASSES = 4
"""Classes of emails that a server may well halt at the same time."""

CLASSES_SILENT = 1
"""The same where it gave no reply: each email more that is tried may then cost minutes."""

SILENCES = 3
"""Emails in a row to which a server says nothing, and takes none meanwhile, that blame it.

They are more where more batches may be under way at once: each may hold one of the same class.
"""

PATIENCE_MAX = 60.0
"""Seconds that an email may keep others waiting, by the time that it has waited itself."""

SMALLER = 0.8
"""An email counts as smaller than the suspects where it has less than this part of their octets."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Traits:
    """What a server may object to in an email: its sender, its recipients' domains, its octets."""

    sender: str
    domains: frozenset[str]
    size: int
    is_fresh: bool = True  # nothing was held against the email so far

    @classmethod
    def of(cls, envelope: Envelope, size: int, *, is_fresh: bool) -> Traits:
        """Return the traits of an email with this envelope and so many octets."""
        domains = frozenset(map(domain_of, envelope.recipients))
        return cls(sender=envelope.sender.lower(), domains=domains, size=size, is_fresh=is_fresh)


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
            + (email.size < self.size * SMALLER)
        )


class Suspicion:
    """The emails that one server answered with a halting reply, since it judged one for itself."""

    def __init__(self, earlier: Traits | None = None, slow: Traits | None = None) -> None:
        """Go on from the suspect that an earlier batch left, and from what was `slow`, if any."""
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
        """Note that the server takes its time with this email: what is like it comes last.

        Also when others have been judged: each one more may cost a process its time.
        """
        self._slow = [email]

    def clear(self) -> None:
        """Note that the server judged an email for itself: the suspects were to blame."""
        self._suspects.clear()
        self._most = CLASSES

    def could_tell(self, email: Traits) -> bool:
        """Return whether the server may well take this email though it halted all suspects."""
        return _classes_without(self._suspects, email) <= self._most

    def is_enough(self, untried: Iterable[Traits]) -> bool:
        """Return whether no email that is left could show that the suspects are to blame."""
        return len(self._suspects) >= ENOUGH and not any(map(self.could_tell, untried))

    def pick(self, untried: Sequence[Traits], random: Callable[[], float]) -> int:
        """Return the place of the email that tells most; any one of several.

        Many that have nothing in common may be halted: where each is picked in its turn, the others
        wait for all of them. Ask only while there is a suspicion.
        """
        ranks = self._ranks(untried)
        return min(range(len(untried)), key=lambda place: (ranks[place], random()), default=0)

    def order(self, untried: Sequence[Traits], random: Callable[[], float]) -> list[int]:
        """Return the places of the emails in the order in which a slow server is to get them.

        Of those that tell as much any one comes first, as with `pick`. Without a slow server they
        stay as they are.
        """
        places = list(range(len(untried)))
        ranks = self._ranks(untried) if self._slow else []
        return sorted(places, key=lambda place: (ranks[place], random())) if ranks else places

    def _ranks(self, untried: Sequence[Traits]) -> list[tuple[bool, bool, float, int]]:
        """Return the rank of each email: the lower, the likelier it is taken.

        The fewer classes without it explain the suspects, the likelier; and likelier still where
        nothing was held against it before.
        """
        suspects = [*self._suspects, *self._slow]
        each = [Common.of([suspect]) for suspect in suspects]

        def rank(email: Traits) -> tuple[bool, bool, float, int]:
            classes = _classes_without(suspects, email)
            unlike = sum(suspect.lacked_by(email) for suspect in each)
            return classes > self._most, not email.is_fresh, classes, -unlike

        return list(map(rank, untried))


def _classes_without(suspects: Sequence[Traits], email: Traits) -> float:
    """Count the classes that explain all suspects, and do not hold this email; inf: none do.

    The largest class first: that is the fewest, or nearly.
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
    """Yield the suspects of each sender, of each domain and of a size that are not this email's.

    Of senders their domain counts too: with VERP each reader's email has a sender of its own.
    """
    for sender in {one.sender for one in suspects} - {email.sender}:
        yield [one for one in suspects if one.sender == sender]
    for home in {domain_of(one.sender) for one in suspects} - {domain_of(email.sender)}:
        yield [one for one in suspects if domain_of(one.sender) == home]
    for domain in frozenset[str]().union(*(one.domains for one in suspects)) - email.domains:
        yield [one for one in suspects if domain in one.domains]
    yield [one for one in suspects if email.size < one.size * SMALLER]


def patience(waited: float, slowest: float) -> float:
    """Return the seconds after which a silent server is waited for no more, where others wait.

    A server that took `slowest` seconds for an email may take so long again; and an email that was
    given up before, and has `waited`, is one of those that take their time.
    """
    return max(2.0 * slowest, min(waited, PATIENCE_MAX))


def most_different(common: Common, untried: Sequence[Traits]) -> int:
    """Return the place of the email that lacks most of these traits; the first of several."""
    places = range(len(untried))
    return max(places, key=lambda place: (common.lacked_by(untried[place]), -place), default=0)
