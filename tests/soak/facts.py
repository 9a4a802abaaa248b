"""What the auditor goes by, read without the library: SQL as text, and the log files.

No import of `outbox` here, nor of what imports it: an error there must not be repeated here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from tests.soak.classes import FOR_GOOD, SHOP, kind_of
from tests.soak.hosts import wire


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """A business row."""

    emails: int
    recipients: int  # of each of its emails
    policy: str
    sender: str = SHOP
    octets: int = 0  # of each of its emails, at least


@dataclass(frozen=True, kw_only=True, slots=True)
class Mail:
    """A row of `outbox_email`, with its recipients' own statuses."""

    id: int
    order: str
    message_id: str
    status: str
    recipients: dict[str, str]  # address -> status
    doubts: int  # rows of the log of attempts that say that nobody knows
    sent: int  # rows of it that say that the server took the email
    age: float = 0.0  # seconds from its commit to its end, by the database's clock
    waited: float = 0.0  # seconds of them that were its own delays, as the row says
    told: tuple[str, ...] = ()  # of one that failed: its attempts, as their log says


@dataclass(frozen=True, kw_only=True, slots=True)
class Copy:
    """An email that the server took over, for one recipient."""

    message_id: str
    order: str


@dataclass(slots=True)
class Refused:
    """What the server noted of a class of emails that it refused."""

    times: int = 0
    taken: int = 0  # copies of others, from the first refusal to the end

    _before: int = 0  # copies that it had taken before the first

    def add(self, other: Refused) -> None:
        """Add what was noted of it at another time."""
        self.times += other.times
        self.taken += other.taken

    def note(self, copies: int) -> None:
        """Note one more refusal, when the server had taken so many copies."""
        self._before = self._before if self.times else copies
        self.times += 1
        self.over(copies)

    def over(self, copies: int) -> None:
        """Note that it is still refused, or just was, when the server had taken so many copies."""
        if self.times:
            self.taken = copies - self._before


@dataclass
class Facts:
    """All that is known at the end."""

    orders: dict[str, Order] = field(default_factory=dict)
    emails: list[Mail] = field(default_factory=list)
    told: dict[str, str] = field(default_factory=dict)  # reference -> what the web was told
    copies: dict[str, list[Copy]] = field(default_factory=lambda: defaultdict(list))
    refused: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    classes: dict[str, Refused] = field(default_factory=lambda: defaultdict(Refused))
    met: dict[str, int] = field(default_factory=dict)  # kind of fault -> how often it was met
    unanswered: int = 0  # final dots to which the server gave no reply in time, by its own note
    leases: int = 0  # left in the table
    counters: dict[str, int] = field(default_factory=dict)
    status: dict[str, int] = field(default_factory=dict)
    miscounted: dict[str, int] = field(default_factory=dict)  # what was counted beyond the log

    def refused_classes(self) -> dict[str, Refused]:
        """Return what was noted of each kind of class, all times together."""
        kinds: dict[str, Refused] = defaultdict(Refused)
        for name, refused in self.classes.items():
            kinds[kind_of(name)].add(refused)
        return kinds


def read(database: str, notes: Path, told: Iterable[Path]) -> Facts:
    """Read the table, the business rows, what the server noted and what the web was told."""
    facts = Facts()
    with psycopg.connect(database) as connection:
        _read_orders(facts, connection)
        _read_mails(facts, connection)
        _read_figures(facts, connection)
    read_notes(facts, notes.read_text().splitlines())
    for file in told:
        if file.exists():
            read_told(facts, file.read_text().splitlines())
    return facts


def _read_orders(facts: Facts, connection: psycopg.Connection) -> None:
    rows = connection.execute(
        "SELECT reference, emails, recipients, policy, sender, octets FROM soak_order"
    )
    for reference, emails, recipients, policy, sender, octets in rows:
        facts.orders[reference] = Order(
            emails=emails, recipients=recipients, policy=policy, sender=sender, octets=octets
        )


def _read_mails(facts: Facts, connection: psycopg.Connection) -> None:
    several: dict[int, dict[str, str]] = defaultdict(dict)
    rows = connection.execute("SELECT email_id, address, status FROM outbox_recipient")
    for email_id, address, status in rows:
        several[email_id][address] = status
    log: dict[tuple[int, str], int] = {}
    rows = connection.execute(
        "SELECT email_id, verdict, count(*) FROM outbox_attempt GROUP BY 1, 2"
    )
    for email_id, verdict, times in rows:
        log[email_id, verdict] = times
    told: dict[int, list[str]] = defaultdict(list)
    rows = connection.execute(
        "SELECT a.email_id, round(extract(epoch FROM a.finished_at - e.created_at), 1) || ' s '"
        " || a.verdict || ' ' || a.phase || ' ' || a.code"
        " FROM outbox_attempt a JOIN outbox_email e ON e.id = a.email_id"
        " WHERE e.status = 'failed' ORDER BY a.id"
    )
    for email_id, text in rows:
        told[email_id].append(text)
    rows = connection.execute(
        "SELECT id, tag, message_id, status, recipient,"
        " coalesce(extract(epoch FROM finished_at - created_at), 0)::float8, waited"
        " FROM outbox_email"
    )
    for id_, tag, message_id, status, recipient, age, waited in rows:
        facts.emails.append(
            Mail(
                id=id_,
                order=tag or "",
                message_id=message_id,
                status=status,
                recipients=several.get(id_) or {recipient: status},
                doubts=log.get((id_, "unknown"), 0),
                sent=log.get((id_, "sent"), 0),
                age=age,
                waited=waited,
                told=tuple(told.get(id_, ())),
            )
        )


def _read_figures(facts: Facts, connection: psycopg.Connection) -> None:
    [(facts.leases,)] = connection.execute("SELECT count(*) FROM outbox_lease").fetchall()
    marks = "('beat', 'folded')"  # these are no counts
    # A counter is the sum of its rows: the others are named `name/…`.
    facts.counters = dict(
        connection.execute(
            "SELECT split_part(name, '/', 1), sum(value)::bigint FROM outbox_counter"
            f" WHERE name NOT IN {marks} GROUP BY 1"
        ).fetchall()
    )
    facts.miscounted = {str(key): int(more) for *key, more in connection.execute(_MISCOUNTED)}
    facts.status = dict(
        connection.execute("SELECT status, count(*) FROM outbox_email GROUP BY 1 ORDER BY 2 DESC")
    )


_MISCOUNTED = """
SELECT minute, server, route, priority, verdict, code, sum(attempts) FROM (
    SELECT floor(extract(epoch FROM a.finished_at) / 60)::int AS minute, a.server,
        split_part(e.lane, '@', 1) AS route, e.priority, a.verdict, a.code, -1 AS attempts
    FROM outbox_attempt AS a JOIN outbox_email AS e ON e.id = a.email_id
    UNION ALL
    SELECT minute, server, route, priority, verdict, code, attempts FROM outbox_stat
    WHERE span = 60
    UNION ALL
    SELECT minute, server, route, priority, verdict, code, attempts FROM outbox_tally
) AS found GROUP BY 1, 2, 3, 4, 5, 6 HAVING sum(attempts) <> 0
"""


def read_notes(facts: Facts, lines: Iterable[str]) -> None:
    """Read what the SMTP server noted."""
    copies = 0
    for line in lines:
        _, event, recipient, message_id, order, *detail = line.split("\t")
        match event:
            case "accepted":
                facts.copies[recipient].append(Copy(message_id=message_id, order=order))
                copies += 1
            case "refused":
                facts.refused[recipient].append(detail[0])
            case wire.CLASS:
                facts.classes[detail[0]].note(copies)
                if recipient:
                    facts.refused[recipient].append(detail[1])
            case wire.CLASS_OVER:
                facts.classes[detail[0]].over(copies)
            case "unanswered":
                facts.unanswered += 1
    for refusal in FOR_GOOD:
        facts.classes[refusal.name].over(copies)


def read_told(facts: Facts, lines: Iterable[str]) -> None:
    """Read what a web process was told; the last word counts."""
    for line in lines:
        reference, _, outcome = line.partition("\t")
        facts.told[reference] = outcome


@dataclass(frozen=True, kw_only=True, slots=True)
class Backlog:
    """What is still to be done at one moment."""

    due: int  # emails that are due, or on their way
    left: int  # emails that have not ended, put off ones included
    leases: int
    halted: int  # how often in a row the SMTP server could not be used: its breaker is open


def last_mail(database: str) -> int:
    """Return the newest email's id."""
    with psycopg.connect(database) as connection:
        [(newest,)] = connection.execute("SELECT coalesce(max(id), 0) FROM outbox_email")
    return int(newest)


def backlog(database: str, until: int) -> Backlog:
    """Return how things stand now with the emails up to this id."""
    statement = (
        "SELECT count(*) FILTER (WHERE status <> 'pending' OR due_at <= clock_timestamp()),"
        " count(*), (SELECT count(*) FROM outbox_lease),"
        " (SELECT coalesce(max(failures), 0) FROM outbox_breaker)"
        " FROM outbox_email WHERE status IN ('pending', 'claimed', 'sending') AND id <= %s"
    )
    with psycopg.connect(database) as connection:
        [(due, left, leases, halted)] = connection.execute(statement, [until]).fetchall()
    return Backlog(due=due, left=left, leases=leases, halted=halted)
