"""The cases, made of the table of replies: each row, at each phase, with each class of emails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import cycle, product

from outbox.domain.delivery.reply_table import MAILING, ROWS, Event, Row
from outbox.domain.delivery.transaction import Phase, Reply, Verdict
from outbox.smtp.reply_reader import parse_reply

REPLIES = (
    "450 4.2.0 mailbox busy",
    "451 4.4.0 not now",
    "550 5.1.1 no such user",
    "554 5.7.1 Access denied",
    "421 4.3.2 closing",
    "530 5.7.0 Must issue a STARTTLS command first",
    "454 Throttling failure: Maximum sending rate exceeded.",
    "450 4.2.1 The user is receiving mail at a rate that is too high",
    "450 4.7.0 rate limit exceeded",
    "550 5.4.5 Daily user sending quota exceeded",
    "450 4.7.1 Error: too many recipients from 192.0.2.1",
    "550 5.1.1 192.0.2.1 has sent to too many recipients this hour. IB607",
    "450 4.7.1 Recipient address rejected: Policy Rejection- Quota Exceeded.",
    "554 5.7.1 Recipient address rejected: Quota exceeded (number of mails in total)",
    "452 4.5.3 too many recipients",
    "552 5.5.3 too many recipients",
    "450 4.5.3 too many recipients",
    "550 5.5.3 too many recipients",
    "452 4.3.1 Insufficient system storage",
    "503 5.5.1 bad sequence of commands",
    "354 go on",
    "250 2.0.0 fine",
    "550 5.2.2 Submission quota exceeded",
)
"""What servers say. Each row of the table decides one of them, or one that its key alone makes."""

EVENTS = (Event.CLOSED, Event.TIMEOUT, Event.GARBAGE, Event.TOO_LONG)
LACKS = ("SIZE", "8BITMIME", "SMTPUTF8")
OURS = frozenset({Event.LEASE, Event.MALFORMED, Event.GIVEN_UP})
"""Events that no server makes."""

_WANTED = {Phase.MAIL: 2, Phase.RCPT: 2, Phase.DATA: 3, Phase.DOT: 2}
_NO_REPLY = Reply(code=0)


class Kind(StrEnum):
    """Which emails always get the reply."""

    ONE = "one"  # it has sender and domain in common with others
    SENDER = "sender"
    DOMAIN = "domain"
    SIZE = "size"


class Servers(StrEnum):
    """Which servers there are, and which of them answer so."""

    ONE = "one server"
    BOTH = "both servers"
    FIRST = "the first server"  # the second is used where the first cannot be
    EITHER = "either server"  # one of two that share the emails


class Order(StrEnum):
    """When the class comes beside the others."""

    FIRST = "first"
    SPREAD = "spread"
    STREAM = "stream"  # first, and half of the others come over some minutes


@dataclass(frozen=True, kw_only=True)
class Part:
    """What a server does: one reply, or event, at one phase; and the row that decides it."""

    row: Row
    phase: Phase
    said: str  # the reply; or an event; or what the server lacks

    @property
    def id(self) -> str:
        where = "second rcpt" if self.row.after_accepted else self.phase
        return f"{where}: {self.said}"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A part, whom it is played to, and where."""

    part: Part
    kind: Kind
    servers: Servers = Servers.ONE
    order: Order = Order.FIRST
    pipelining: bool = False
    good: int = 100
    bad: int = 5  # of Kind.ONE it is one
    lifetime: float = 300.0  # seconds: of every email

    @property
    def id(self) -> str:
        how = "pipelined" if self.pipelining else "in turn"
        return f"{self.part.id}, {self.kind}, {self.servers}, {self.order}, {how}"


def parts() -> list[Part]:
    """Return what the rows of the table are about, as far as a server can do it."""
    found = [part for row in ROWS for part in _of_row(row)]
    assert len({part.id for part in found}) == len(found)
    return found


def part(phase: Phase, line: str) -> Part:
    """Return what a server does that answers so, once and whenever asked."""
    code, _, text = line.partition(" ")
    row = _row(phase, code, parse_reply(int(code), text.encode()), False)
    return Part(row=row, phase=phase, said=line)


def _of_row(row: Row) -> Iterator[Part]:
    if row.verdict is Verdict.SENT or row.key in OURS:
        return
    for phase in Phase:  # in their order
        if phase in row.phases & MAILING:
            told = list(_said(row, phase))
            assert told or phase is Phase.BODY, f"REPLIES has none that this decides: {row}"
            yield from (Part(row=row, phase=phase, said=said) for said in told)


def _said(row: Row, phase: Phase) -> Iterator[str]:
    if row.key == Event.LACKING:
        yield from LACKS
        return
    for event in EVENTS if phase is not Phase.BODY else EVENTS[:2]:
        if _row(phase, event, _NO_REPLY, row.after_accepted) is row:
            yield event
    lines = [*REPLIES, f"{row.key} no"] if len(row.key) == 3 else REPLIES
    decided = [line for line in lines if _decides(row, phase, line)]
    # Of a row that is about all codes of a kind: a refusal of one recipient, and one of anybody.
    yield from decided[: 2 if len(row.key) == 1 and row.text is None else 1]


def _decides(row: Row, phase: Phase, line: str) -> bool:
    code, _, text = line.partition(" ")
    reply = parse_reply(int(code), text.encode())
    if _WANTED.get(phase) in (None, reply.code // 100):  # in the body no reply is read
        return False
    return _row(phase, code, reply, row.after_accepted) is row


def _row(phase: Phase, key: str, reply: Reply, accepted: bool) -> Row:
    return next(row for row in ROWS if row.applies(phase, key, reply, accepted))


def _case(part: Part, kind: Kind, servers: Servers, order: Order, pipelining: bool) -> Case:
    # So many are in a class: more than a server may refuse alike before it is blamed.
    bad = 12 if part.row.verdict in (Verdict.RETRY, Verdict.FAIL) else 5
    return Case(part=part, kind=kind, servers=servers, order=order, pipelining=pipelining, bad=bad)


def every_case() -> list[Case]:
    """Return each part with each kind, on each set of servers, in each order."""
    ways = product(parts(), Kind, Servers, Order)
    pairs = zip(ways, cycle((False, True)), strict=False)
    return [
        replace(_case(part, kind, servers, order, pipelining), lifetime=7200.0)
        for (part, kind, servers, order), pipelining in pairs
        if _is_possible(part, kind)
    ]


def some_cases() -> list[Case]:
    """Return each part at least once, and each row with each kind; the other choices in turn."""
    others = cycle(_mixed())
    return [
        _case(part, kind, servers, order, pipelining)
        for (part, kind), (servers, order, pipelining) in zip(_pairs(), others, strict=False)
    ]


def _pairs() -> Iterator[tuple[Part, Kind]]:
    """Yield each part with a kind, in turn; and what no part of a row has had."""
    found = parts()
    for number, row in enumerate(ROWS):
        ours = [part for part in found if part.row is row]
        left = list(Kind)
        for place, part in enumerate(ours):
            possible = [kind for kind in Kind if _is_possible(part, kind)]
            new = [kind for kind in possible if kind in left] or possible
            kind = new[(number + place) % len(new)]
            left = [other for other in left if other is not kind]
            yield part, kind
        for kind in left:
            yield from [(part, kind) for part in ours if _is_possible(part, kind)][:1]


def _mixed() -> Sequence[tuple[Servers, Order, bool]]:
    """Return every choice beside part and kind, those that follow each other being unlike."""
    ways = list(product(Servers, Order, (False, True)))
    return [ways[place * 7 % len(ways)] for place in range(len(ways))]


def _is_possible(part: Part, kind: Kind) -> bool:
    """At MAIL no server knows the recipients; and a SIZE that is too small is about a size."""
    if part.said == "SIZE":
        return kind in (Kind.ONE, Kind.SIZE)
    return kind is not Kind.DOMAIN or part.phase is not Phase.MAIL or part.said in LACKS
