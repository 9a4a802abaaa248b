"""What a test wants of an email, and where an email differs from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, ndiff
from typing import NamedTuple, TypedDict

from ..domain.config.hint import hint
from .addresses import bare_addresses, on_the_wire
from .enqueued import EnqueuedEmail

BEGINNING = 80
"""Characters that are shown of a text in which nothing is like what was wanted."""

_OF_TEXTS = ("subject", "subject_contains", "text_contains", "html_contains")


class Filters(TypedDict, total=False):
    """What an email must be like. What is not given may be anything."""

    to: str | Sequence[str]  # each of these addresses is in To
    subject: str
    subject_contains: str
    tag: str
    key: str
    text_contains: str
    html_contains: str


class Difference(NamedTuple):
    """Where an email is not what was wanted."""

    name: str
    wanted: str
    found: str  # of a text: the place that is the most like what was wanted

    @property
    def likeness(self) -> float:
        """From 0 to 1."""
        return SequenceMatcher(None, self.wanted, self.found, autojunk=False).ratio()

    def lines(self) -> Iterator[str]:
        """Yield a diff for people: - what was wanted, + what was found."""
        yield f"{self.name}:"
        yield from (f"  {line.rstrip()}" for line in ndiff([self.wanted], [self.found]))


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The filters of one question. An address is compared without regard to case."""

    to: str | Sequence[str] | None = None
    subject: str | None = None
    subject_contains: str | None = None
    tag: str | None = None
    key: str | None = None
    text_contains: str | None = None
    html_contains: str | None = None

    @classmethod
    def of(cls, filters: Filters) -> Wanted:
        """Return the filters of a call.

        Raises TypeError for a name that is no filter. Raises ValueError for a value that any email
        would match: such as None, where a test meant an address that its own code has not set. So
        it does for a `to` that is no bare address, and for a part of a text that is no text: no
        email would match that.
        """
        names, to = Filters.__annotations__, filters.get("to")
        if isinstance(to, Iterable) and not isinstance(to, str):
            filters = filters.copy()
            filters["to"] = tuple(to)  # an iterator can be read only once
        for name, value in filters.items():
            if name not in names:
                known = f"the filters are {', '.join(names)}"
                raise TypeError(f"there is no filter {name!r}{hint(name, names)}; {known}")
            if value is None or (not value and name not in ("subject", "tag", "key")):
                raise ValueError(f"{name}={value!r} would match any email: leave it out, or set it")
            is_text = name.endswith("_contains") or name in ("tag", "key")
            if is_text and not isinstance(value, str):
                raise ValueError(f"{name}={value!r} must be text")
        bare_addresses("to", filters.get("to", ()))
        return cls(**filters)

    def __str__(self) -> str:
        """Return the filters that were given, or ""."""
        return ", ".join(f"{name}={value!r}" for name, value in self._given())

    def __len__(self) -> int:
        """Return how many filters were given."""
        return sum(1 for _ in self._given())

    def differences(self, email: EnqueuedEmail) -> list[Difference]:
        """Return where the email differs; it matches if there is no difference."""
        return self._differences(email, email.recipients if email.is_redacted else email.to)

    def matches(self, email: EnqueuedEmail) -> bool:
        """Return whether the email is what was wanted."""
        return not self.differences(email)

    def may_match(self, email: EnqueuedEmail) -> bool:
        """Return whether the email is, or may be, what a test wants not to be enqueued.

        Whoever gets it counts, in Cc and Bcc, too. What was removed from it may have been anything.
        """
        unknown = _OF_TEXTS if email.is_redacted else ()
        found = self._differences(email, (*email.to, *email.recipients))
        return all(difference.name in unknown for difference in found)

    def _differences(self, email: EnqueuedEmail, people: Sequence[str]) -> list[Difference]:
        return [*self._of_people(people), *self._of_values(email), *self._of_texts(email)]

    def _of_people(self, people: Sequence[str]) -> Iterator[Difference]:
        wanted = bare_addresses("to", self.to or ())
        if not set(map(on_the_wire, wanted)) <= set(map(on_the_wire, people)):
            yield Difference("to", ", ".join(wanted), ", ".join(people))

    def _of_values(self, email: EnqueuedEmail) -> Iterator[Difference]:
        for name in ("subject", "tag", "key"):
            wanted, found = getattr(self, name), getattr(email, name)
            if wanted is not None and wanted != found:
                yield Difference(name, repr(wanted), repr(found))

    def _of_texts(self, email: EnqueuedEmail) -> Iterator[Difference]:
        for name in ("subject", "text", "html"):
            wanted, found = getattr(self, f"{name}_contains"), getattr(email, name)
            if wanted is not None and wanted not in found:
                nearest = repr(_nearest(found, wanted)) if found else f"(no {name})"
                yield Difference(f"{name}_contains", repr(wanted), nearest)

    def _given(self) -> Iterator[tuple[str, object]]:
        return ((name, value) for name, value in vars(self).items() if value is not None)


def _nearest(text: str, wanted: str) -> str:
    """Return the part of a text that is the most like what was wanted, or else its beginning."""
    common = SequenceMatcher(None, text, wanted, autojunk=False).find_longest_match()
    if 2 * common.size < len(wanted):
        return text[:BEGINNING].strip()
    start = max(0, common.a - common.b)
    return text[start : start + len(wanted)]
