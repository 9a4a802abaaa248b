"""What the auditor goes by, read without the library: SQL as text, and the log files.

No import of `outbox` here, nor of what imports it: an error there must not be repeated here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import psycopg


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """A business row."""

    mails: int
    recipients: int  # of each of its mails
    policy: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Mail:
    """A row of `outbox_email`, with its recipients' own statuses."""

    id: int
    order: str
    message_id: str
    status: str
    recipients: dict[str, str]  # address -> status
    doubts: int  # rows of the log of attempts that say that nobody knows
    sent: int  # rows of it that say that the server took the mail


@dataclass(frozen=True, kw_only=True, slots=True)
class Copy:
    """A mail that the server took over, for one recipient."""

    message_id: str
    order: str


@dataclass
class Facts:
    """All that is known at the end."""

    orders: dict[str, Order] = field(default_factory=dict)
    mails: list[Mail] = field(default_factory=list)
    told: dict[str, str] = field(default_factory=dict)  # reference -> what the web was told
    copies: dict[str, list[Copy]] = field(default_factory=lambda: defaultdict(list))
    refused: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    unanswered: int = 0  # final dots to which the server gave no reply in time, by its own note
    leases: int = 0  # left in the table
    counters: dict[str, int] = field(default_factory=dict)
    status: dict[str, int] = field(default_factory=dict)


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
    rows = connection.execute("SELECT reference, mails, recipients, policy FROM soak_order")
    for reference, mails, recipients, policy in rows:
        facts.orders[reference] = Order(mails=mails, recipients=recipients, policy=policy)


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
    rows = connection.execute("SELECT id, tag, message_id, status, recipient FROM outbox_email")
    for id_, tag, message_id, status, recipient in rows:
        facts.mails.append(
            Mail(
                id=id_,
                order=tag or "",
                message_id=message_id,
                status=status,
                recipients=several.get(id_) or {recipient: status},
                doubts=log.get((id_, "unknown"), 0),
                sent=log.get((id_, "sent"), 0),
            )
        )


def _read_figures(facts: Facts, connection: psycopg.Connection) -> None:
    [(facts.leases,)] = connection.execute("SELECT count(*) FROM outbox_lease").fetchall()
    facts.counters = dict(connection.execute("SELECT name, value FROM outbox_counter"))
    facts.status = dict(
        connection.execute("SELECT status, count(*) FROM outbox_email GROUP BY 1 ORDER BY 2 DESC")
    )


def read_notes(facts: Facts, lines: Iterable[str]) -> None:
    """Read what the SMTP server noted."""
    for line in lines:
        _, event, recipient, message_id, order, *detail = line.split("\t")
        match event:
            case "accepted":
                facts.copies[recipient].append(Copy(message_id=message_id, order=order))
            case "refused":
                facts.refused[recipient].append(detail[0])
            case "unanswered":
                facts.unanswered += 1


def read_told(facts: Facts, lines: Iterable[str]) -> None:
    """Read what a web process was told; the last word counts."""
    for line in lines:
        reference, _, outcome = line.partition("\t")
        facts.told[reference] = outcome


@dataclass(frozen=True, kw_only=True, slots=True)
class Backlog:
    """What is still to be done at one moment."""

    due: int  # mails that are due, or on their way
    left: int  # mails that have not ended, put off ones included
    leases: int
    halted: int  # how often in a row the SMTP server could not be used: its breaker is open


def backlog(database: str) -> Backlog:
    """Return how things stand now."""
    statement = (
        "SELECT count(*) FILTER (WHERE status <> 'pending' OR due_at <= clock_timestamp()),"
        " count(*), (SELECT count(*) FROM outbox_lease),"
        " (SELECT coalesce(max(failures), 0) FROM outbox_breaker)"
        " FROM outbox_email WHERE status IN ('pending', 'claimed', 'sending')"
    )
    with psycopg.connect(database) as connection:
        [(due, left, leases, halted)] = connection.execute(statement).fetchall()
    return Backlog(due=due, left=left, leases=leases, halted=halted)
