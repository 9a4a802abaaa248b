"""A server that refuses every email alike is at fault itself, and the emails are not. Pure.

A blocklisted client is told so at RCPT, email after email (Postfix: "554 5.7.1 Service unavailable;
Client host [192.0.2.1] blocked using …"). Each reply alone looks like a refusal of one recipient.

Only an email that the server takes shows that it does not refuse everybody. An unknown recipient
in between does not, and nor do other words: the server's next node may have its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..header.address import domain_of
from .blame import Common, Traits
from .refusal_fingerprint import (
    in_ascii,
    is_like,
    is_of_contents,
    may_be_own,
    reason,
    refusal_of,
    words_of_refusal,
)
from .transaction import NOBODY, Phase, Transaction, Verdict

_ODD = 3
"""After this many refusals alike in a row an email that differs is tried next."""

IN_ANY_WORDS = 4
"""So many times as many emails are needed where their refusals have few words in common."""

AGAIN = 2
"""So many emails, refused as before behind one that a probe's server took, keep it halted."""

TRIED = 5
"""So many emails the first probe tries that were not tried before. Each later one tries twice as
many, as far as one window has room: none of them is recorded before the probe's end is known."""


class Refused(NamedTuple):
    """Whom a server refused, and which content: None before the dot, where it knows none."""

    recipient: str
    content: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemicRefusal:
    """The server refuses every email alike: open its breaker, with an alert, and charge nobody.

    This does not hold where what the refused emails have in `common` explains the refusals.
    """

    refusal: str  # the last one's fingerprint, for the breaker
    reason: str  # the refusal in words for people; it names nobody
    emails: frozenset[int]  # of the streak: those not recorded yet go back uncharged
    common: Common
    known: bool  # the server's breaker is open for such refusals
    several: bool = False  # they have different words
    fresh: int = 0  # so many of the emails were refused for the first time


class _Stage:
    """The emails that were refused at one stage, the envelope or the content; by fingerprint."""

    def __init__(self) -> None:
        self.emails: dict[int, tuple[str, Traits]] = {}
        self.refused: dict[str, set[Refused]] = {}

    def add(self, email: int, refusal: str, traits: Traits, refused: Refused) -> None:
        self.emails[email] = refusal, traits
        self.refused.setdefault(refusal, set()).add(refused)

    def traits(self, refusal: str | None = None) -> list[Traits]:
        """Return the traits of the emails that were refused like this; None: of all."""
        every = self.emails.values()
        return [traits for found, traits in every if refusal in (None, found)]

    @property
    def everybody(self) -> set[Refused]:
        """All who were refused, in whatever words."""
        return set[Refused]().union(*self.refused.values())


class RefusalStreak:
    """Emails that one server refused since it last took one.

    `needed` of them, to different recipients, show that the server is at fault, where it refused
    them alike; in any words more are needed: see `are_many`. `known` is the refusal for which its
    breaker is open, as it is stored. Then one more, the probe's, is enough, in whatever words. Once
    the probe's server took an email, `AGAIN` are needed, and of contents a fresh one among them.

    What this batch saw the server take is known without a look. `were_taken` looks into the log:
    in one streak once for each content, and only where the answer decides.
    """

    def __init__(
        self,
        needed: int,
        *,
        known: str | None = None,
        were_taken: Callable[[str, Collection[int]], Collection[int]] = lambda *_: (),
    ) -> None:
        """`were_taken` returns those of the contents that do not explain the refusal."""
        self._needed = needed
        self._known = known
        self._were_taken = were_taken
        self.refusal: str | None = None  # of the last email; None where it met none
        self._stages: dict[bool, _Stage] = {}  # by whether contents were refused
        self._last = _Stage()  # that of the last refusal
        self._taken = set[int]()  # contents that do not explain why they are refused
        self._asked = set[int]()  # contents that were looked up
        self._has_taken = False  # the server took an email of this batch

    @property
    def refusals(self) -> tuple[str, ...]:
        """One refusal of each stage at which the server refused emails since it last took one."""
        return tuple(next(iter(stage.refused)) for stage in self._stages.values())

    @property
    def common(self) -> Common | None:
        """What emails have in common that were refused like the last one, if many were."""
        if self.refusal is None:
            return None
        alike = self._last.traits(self.refusal)
        return Common.of(alike) if len(alike) >= _ODD else None

    def add(
        self, email: int, result: Transaction, *, content: int, traits: Callable[[], Traits]
    ) -> SystemicRefusal | None:
        """Note an email's result, by its id and its content's; return a refusal once it is proven.

        A HALT, or an email that was not sent, says nothing of it and leaves the streak as it is,
        unless recipients were refused before the server hung up. So does what is about one
        recipient alone. An email that is taken ends the streak.
        """
        if result.verdict in NOBODY and not result.refused_early():
            return None
        if result.verdict is Verdict.SENT:
            self._has_taken = True
            self.note_taken(content)
            self._stages, self._last, self._asked = {}, _Stage(), set()
        refusal = self.refusal = refusal_of(result)
        if refusal is None:
            return None
        self._last = self._stages.setdefault(is_of_contents(refusal), _Stage())
        if email not in self._last.emails:  # else this is another part of it
            what = content if result.phase is Phase.DOT else None
            refused = Refused(result.recipients[0].address, what)
            self._last.add(email, refusal, traits(), refused)
        is_known = is_like(self._known, refusal) and self._is_as_before()
        alike = self._last.traits() if is_known else self._enough(refusal)
        if not alike:
            return None
        several = len(self._last.refused) > 1
        is_as_known = self._known in (refusal, in_ascii(refusal))
        return SystemicRefusal(
            refusal=refusal,
            reason=reason(words_of_refusal(result), several=several),
            several=several or (is_known and not is_as_known),
            emails=frozenset(self._last.emails),
            common=Common.of(alike),
            known=is_known,
            fresh=sum(one.is_fresh for one in alike),
        )

    def _enough(self, refusal: str) -> list[Traits]:
        """Return the emails that show the server to be at fault; none where they are too few."""
        last, found = self._last, list[Traits]()
        if are_enough(last.refused[refusal], self._needed, self._those_taken):
            found = last.traits(refusal)
        is_of_one_domain = bool(found) and bool(Common.of(found).domains)
        if (not found or is_of_one_domain) and len(last.refused) > 1:
            is_many = are_many(last.everybody, self._needed, self._those_taken)
            found = last.traits() if is_many else found
        return found

    def _is_as_before(self) -> bool:
        """Return whether the refusals show that a halted server refuses as it did before."""
        if not self._has_taken:
            return True
        is_any_fresh = any(one.is_fresh for one in self._last.traits())
        tells = is_any_fresh or not is_of_contents(self._known)
        return tells and are_enough(self._last.everybody, AGAIN, self._those_taken)

    @property
    def is_probing(self) -> bool:
        """Whether this batch probes, by several emails, a server that refused all others alike."""
        return may_be_own(self._known)

    def pick(self, untried: Sequence[Traits]) -> int:
        """Return the place of the email that a probe tries next.

        It is one that was not tried before. Behind one that the server took it is one that was
        refused before: if that is refused again, and the next one is taken, it is to blame itself.
        One whose recipients were refused is the very first: it costs no content, and then even one
        email that is taken tells. Behind it come the newest and the oldest in turn: those that are
        refused mostly follow each other.
        """
        begins_anew = is_of_contents(self._known) and not self._has_taken
        wants_fresh = begins_anew or self.refusal is not None
        wanted = [n for n, one in enumerate(untried) if one.is_fresh is wants_fresh] or [0]
        is_newest_next = not is_of_contents(self._known) and len(self._last.emails) % 2 == 1
        return wanted[-1 if is_newest_next else 0]

    def note_taken(self, content: int) -> None:
        """Note that the server took an email of this content, after it refused those of the streak.

        From now on only the log tells of those.
        """
        for stage in self._stages.values():
            self._taken.difference_update(one.content for one in stage.everybody)
        self._taken.add(content)

    def _those_taken(self, contents: Collection[int]) -> Collection[int]:
        unknown = set(contents) - self._taken - self._asked
        if unknown and self.refusal is not None:
            self._asked |= unknown
            self._taken |= unknown.intersection(self._were_taken(self.refusal, unknown))
        return self._taken


def are_enough(
    refused: Collection[Refused],
    needed: int,
    were_taken: Callable[[Collection[int]], Collection[int]],
) -> bool:
    """Return whether `needed` emails, to different recipients, were refused alike.

    A refused content counts once, however many emails share it: a newsletter that a filter refuses
    says nothing about other emails. But a filter refuses it from the first copy on. If the server
    has taken the content lately, and hardly another one since it began to refuse it, the content
    does not explain why: its recipients count. So a quota is told from a filter, whatever its
    words. `were_taken` returns such contents. It is asked only where the answer decides.
    """
    if _count(refused, ()) >= needed:
        return True
    contents = {one.content for one in refused if one.content is not None}
    return _count(refused, contents) >= needed and _count(refused, were_taken(contents)) >= needed


def are_many(
    refused: Collection[Refused],
    needed: int,
    were_taken: Callable[[Collection[int]], Collection[int]],
) -> bool:
    """Return whether a server that took nobody in between refused so many, in whatever words.

    `IN_ANY_WORDS` times as many are needed as where the words are alike: an old list may begin with
    dozens of addresses that their own servers refuse. No recipient domain counts more than `needed`
    times.
    """
    if len(refused) < IN_ANY_WORDS * needed:
        return False
    seen = Counter[str]()
    spread = set[Refused]()
    for one in refused:
        domain = domain_of(one.recipient)
        seen[domain] += 1
        if seen[domain] <= needed:
            spread.add(one)
    return are_enough(spread, IN_ANY_WORDS * needed, were_taken)


def _count(refused: Collection[Refused], taken: Collection[int]) -> int:
    return len({who if what is None or what in taken else what for who, what in refused})


def trial_size(failures: int, window: int) -> int:
    """Return how many emails a probe tries for the first time, behind this many failures in a row.

    It leaves room in the window for some that were refused before.
    """
    most = max((window + 1) // 2, window - (TRIED - 1))
    return min(TRIED << min(max(failures, 1) - 1, 10), most)
