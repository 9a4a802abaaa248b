"""The emails of a case: good ones of many kinds, and among them a class that has one trait more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.message import EmailMessage
from itertools import count, islice
from typing import Any

from sqlalchemy.orm import Session

from outbox import Priority
from outbox.domain.delivery.transaction import Phase
from tests.integration.blame.cases import Case, Kind, Order
from tests.integration.blame.server import Seen
from tests.support.shop.shop import Shop

FEW = 3
"""Emails of a class that are huge."""

LARGE = 60_000
HUGE = 5_000_000
"""Octets: more than all buffers on the way to a server take."""

_KINDS, _DOMAINS, _TEXTS = 4, 5, 3
_ALL = tuple(range(_KINDS))
_BAD_SENDER, _BAD_DOMAIN = "blocked@shop.example", "refusing.example"
_OWN_LENGTH = 777
"""Letters that one email has more than any other: so its SIZE is its own."""

_STREAM = (7.0, 20.0, 40.0, 80.0, 150.0)
"""Seconds after which good ones come in a stream: meanwhile the others are tried again."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Emails that are written together. They are due after so many seconds."""

    good: bool
    emails: int
    kinds: tuple[int, ...] = ()  # of good ones: each has its own sender and text
    after: float = 0.0


def groups(case: Case) -> Iterator[Group]:
    """Yield the emails of a case in their order."""
    good, most = case.good, FEW if case.part.phase is Phase.BODY else case.bad
    bad = 1 if case.kind is Kind.ONE else most
    if case.order is Order.SPREAD:
        each = good // (bad + 1)
        for number in range(bad):
            yield Group(good=True, emails=each, kinds=(number % _KINDS,))
            yield Group(good=False, emails=1)
        yield Group(good=True, emails=good - bad * each, kinds=_ALL)
        return
    yield Group(good=False, emails=bad)
    if case.order is Order.FIRST:
        yield Group(good=True, emails=good, kinds=_ALL)
        return
    each = good // 2 // len(_STREAM)
    yield Group(good=True, emails=good - each * len(_STREAM), kinds=_ALL)
    for number, after in enumerate(_STREAM):
        yield Group(good=True, emails=each, kinds=(number % _KINDS,), after=after)


def write(shop: Shop, case: Case, now: datetime) -> None:
    """Write the emails and commit. Each has an address of its own; the tag says which are good."""
    numbers = count()
    with shop.session() as session:
        for group in groups(case):
            due = now + timedelta(seconds=group.after) if group.after else None
            writer, own = _Writer(shop, session, due), list(islice(numbers, group.emails))
            _write_good(writer, group, own) if group.good else _write_bad(writer, case, own)
        session.commit()


@dataclass(frozen=True)
class _Writer:
    shop: Shop
    session: Session
    send_at: datetime | None

    def write(self, tag: str, sender: str, text: str, to: list[str], *, each: int = 1) -> None:
        """Write emails of one content, each to so many of the addresses."""
        options: dict[str, Any] = {"tag": tag, "priority": Priority.NORMAL, "send_at": self.send_at}
        message = EmailMessage()
        message["From"], message["Subject"] = sender, "News"
        message.set_content(text, cte="7bit" if text.isascii() else "8bit")
        if not text.isascii():  # signed, so that nothing may encode it
            message["DKIM-Signature"] = "v=1; d=shop.example; h=from; bh=x; b=y"
        outbox = self.shop.outbox
        if each == 1:
            outbox.enqueue_many(message, to, session=self.session, **options)
            return
        for start in range(0, len(to), each):
            del message["To"]
            message["To"] = ", ".join(to[start : start + each])
            outbox.enqueue(message, session=self.session, **options)


def _write_good(writer: _Writer, group: Group, numbers: list[int]) -> None:
    """No sender, domain or text is any class's own."""
    for place, kind in enumerate(group.kinds):
        to = [f"r{n}@readers{n % _DOMAINS}.example" for n in numbers[place :: len(group.kinds)]]
        text = "Thank you for your order.\n" * (1 + kind % _TEXTS * 10)
        writer.write("good", f"shop{kind}@shop.example", text, to)


def _write_bad(writer: _Writer, case: Case, numbers: list[int]) -> None:
    sender = _BAD_SENDER if case.kind is Kind.SENDER else "shop0@shop.example"
    domain = _BAD_DOMAIN if case.kind is Kind.DOMAIN else "readers0.example"
    part, each = case.part, 3 if case.part.row.after_accepted else 1
    length = LARGE if case.kind is Kind.SIZE or part.said == "SIZE" else _OWN_LENGTH
    text = ("x" * 69 + "\n") * ((HUGE if part.phase is Phase.BODY else length) // 70)
    if part.said == "8BITMIME":
        text += "Gr\u00fc\u00dfe\n"
    name = "jos\u00e9" if part.said == "SMTPUTF8" else "bad"
    to = [f"{name}{n}-{place}@{domain}" for n in numbers for place in range(each)]
    writer.write("bad", sender, text, to, each=each)


def trait(shop: Shop, case: Case) -> Callable[[Seen], bool]:
    """Return by what a server knows the class."""
    match case.kind:
        case Kind.ONE:
            email = shop.tables.email
            [size] = {row.size for row in shop.rows(email, email.c.tag == "bad")}
            assert len(shop.rows(email, email.c.size == size)) == 1, "its size is not its own"
            return lambda seen: seen.size == size
        case Kind.SENDER:
            return lambda seen: seen.sender == _BAD_SENDER
        case Kind.DOMAIN:
            return lambda seen: _BAD_DOMAIN in seen.domains
        case Kind.SIZE:
            return lambda seen: seen.size > LARGE // 2
