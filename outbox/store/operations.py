"""The operations that a database may do in its own way, and their types.

An operation is whole, and stands in the folder of its database. None means the portable way, which
stands in the file that asks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from sqlalchemy import CTE, Column, ColumnElement, Connection, Row, Select, Table, TextualSelect

from ..domain.instance import DatabasePlace
from ..domain.scheduling.claim_plan import ClaimRequest, LaneKey
from ..domain.scheduling.lanes import Wants
from .connection.database import Database
from .new_email import Values
from .records import Advanced, Depth, Mark, ProblemGroup, TagFinding, WindowChange


class WholeInsert(Protocol):
    """Inserts an email with all that belongs to it in one statement."""

    def is_possible(self, connection: Connection) -> bool:
        """Return whether the connection's driver can do this."""

    def insert(
        self,
        connection: Connection,
        database: Database,
        row: Values,
        content: int | dict[str, Any],
        recipients: Sequence[str],
        digests: Collection[int],
    ) -> int:
        """Insert one email and return its id."""


class BulkCopy(Protocol):
    """Inserts many rows at once, as a stream."""

    def is_possible(self, connection: Connection) -> bool:
        """Return whether the connection's driver can do this."""

    def copy_rows(
        self,
        connection: Connection,
        database: Database,
        table: Table,
        names: Sequence[str],
        rows: Iterable[Sequence[Any]],
    ) -> int:
        """Insert the rows and return their number."""

    def reserve(
        self, connection: Connection, database: Database, tables: Sequence[Table], count: int
    ) -> tuple[datetime, list[list[int]]]:
        """Return the database's time, and for each table ids for `count` rows, or no ids."""


class LaneKeys(Protocol):
    """The statement that selects the pairs of lane and priority in which emails wait."""

    STATEMENT: str

    def parameters(self, marks: Mapping[LaneKey, Mark], /) -> dict[str, Any]:
        """Return the statement's parameters."""


class CountStatement(Protocol):
    """The statement that counts the emails of any number of lanes and priorities, due or not."""

    STATEMENT: str

    def parameters(
        self, starts: Mapping[LaneKey, Mark], limits: Mapping[LaneKey, int], /
    ) -> dict[str, Any]:
        """Return the statement's parameters without the time."""


Withdraw = Callable[[Connection, Database, Sequence[int]], int]
"""Takes ids; withdraws those emails that still wait, and returns how many are cancelled."""

Comparison = Callable[[Any, Any], ColumnElement[bool]]
"""Such as `operator.le`."""

Waiting = Callable[[Database, CTE, Comparison, ColumnElement[Any], int], Select[*tuple[Any, ...]]]
"""Takes the ways, how due times compare to a moment, the moment, and a limit for each way; returns
the statement for a row per such email."""

GoBy = Callable[[Select[int], Table, str], Select[int]]
"""Takes a statement, a table and an index; returns the statement so that it goes by the index."""

GroupProblems = Callable[[Connection, Database, int], Iterable[ProblemGroup]]
"""Takes the most emails to look at; returns their groups, the one with the newest email first."""

LastAttempts = Callable[
    [Connection, Database, Collection[int]], dict[int, tuple[int, str, int, str, str]]
]
"""Takes emails; returns by id the last attempt of each that has one, as `search/problems.py`."""

NewsletterIds = Callable[[Connection, Database, int, int, int], dict[str, int]]
"""Takes how many of the newest emails are looked at, of those that wait, and of all; returns the
tags of bulk email with the ids of their newest emails."""

Probes = Callable[[Database, ColumnElement[Any], Sequence[int], str | None], Select[Any]]
"""Takes a column, ids and a tag: see `search/spread.py`."""

TagFindings = Callable[[Connection, Database, Sequence[str], Depth], list[TagFinding]]
"""Takes tags, and how much is read of each; returns what is found of them."""

ClaimDue = Callable[
    [Connection, Database, ClaimRequest, UUID, Mark | None], Sequence[Row[int, int]]
]
"""Claims one batch under a token, from a mark on; returns each email's id and crashes."""

ClaimWhole = Callable[[Database, ClaimRequest, UUID, Mark | None, float], int | None]
"""Claims one batch under a token, with its lease of so many seconds; returns how many emails, or
None if it cannot, because some go alone."""

TakePermits = Callable[[Database, Wants, Wants, float], float | None]
"""Takes costs, wants and a margin: see `rate_limits.take_in_steps`."""

Advance = Callable[[Database, Sequence[WindowChange], str], list[Advanced]]
"""Takes changes of windows without an email in two of them, and the worker's name. Returns what it
did for each. Several changes are tried once, and then all or none are made."""

DeletePairs = Callable[[Connection, Database, Table, Sequence[tuple[int, int]]], None]
"""Takes a table, and the values of the two columns of its primary key for each row."""

DeleteKeyed = Callable[[Connection, Database, Column[Any], Sequence[int], str], None]
"""Takes a column, its keys, and the index that begins with the column."""

RenewMark = Callable[[Database, str, float], int | None]
"""Takes a mark's name, and the seconds for which it counts as new: see `beat.renew_in_steps`."""


RenewWorker = Callable[
    [Database, UUID, Mapping[str, Any], Sequence[tuple[str, float, int]], float],
    Sequence[Row[Any]],
]
"""Takes a worker's id, what has changed, its marks, and for how long a worker counts as living: see
`fleet.renew_and_look`."""

Fold = Callable[[Connection, Database, int], int]
"""Takes the most tallies to sum up; returns how many it has summed up and removed."""

BoundedWaits = Callable[[Connection, float], AbstractContextManager[None]]
"""Takes seconds; the statements of the block fail where they wait longer for a row."""

AddToSums = Callable[[Connection, Database, Sequence[dict[str, Any]]], None]
"""Takes rows of the sums' table; adds each to the sum with its key, or inserts it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Backend:
    """The operations that one database does in its own way. An unknown database has none."""

    # Enqueue and cancel
    insert: WholeInsert | None = None
    copy: BulkCopy | None = None
    withdraw: Withdraw | None = None

    # Sweep
    lane_keys: LaneKeys | None = None
    due_counts: CountStatement | None = None
    claim_due: ClaimDue | None = None
    claim_whole: ClaimWhole | None = None
    renew_mark: RenewMark | None = None
    renew_worker: RenewWorker | None = None
    commit_locally: Callable[[Connection], None] | None = None  # what only tells
    fold: Fold | None = None
    add_to_sums: AddToSums | None = None

    # Metrics and searches
    waiting: Waiting | None = None
    first_waiting: Callable[..., Select[*tuple[Any, ...]]] | None = None  # see `first` of MySQL
    go_by: GoBy | None = None

    # What pages show
    group_problems: GroupProblems | None = None
    last_attempts: LastAttempts | None = None
    newsletter_ids: NewsletterIds | None = None
    tag_findings: TagFindings | None = None
    probes: Probes | None = None
    waiting_tags: Callable[[Connection, Database, int], Iterator[Select[Any]]] | None = None

    # Send
    take_permits: TakePermits | None = None
    advance: Advance | None = None

    # Purge
    delete_keyed: DeleteKeyed | None = None
    delete_pairs: DeletePairs | None = None

    # What a person waits for: rows; tables, too; a line for each session that holds tables up; and
    # what is told of commits that wait for a replica
    bounded: BoundedWaits | None = None
    bounded_quietly: Callable[..., AbstractContextManager[None]] | None = None
    lock_waits: Callable[[Sequence[str]], TextualSelect] | None = None
    lock_lines: Callable[[Connection, Sequence[str], float], list[str]] | None = None
    commit_waits: TextualSelect | None = None
    commit_lines: Callable[[Connection, float], list[str]] | None = None

    # The instance: where the table of this name is
    place: Callable[[Connection, str], DatabasePlace] | None = None

    # The app's own session: on which database it is, whether its transaction wrote or locked, and
    # whether the errors with these codes undid it
    identity: Callable[[Connection], Hashable] | None = None
    holds: Callable[[Connection], bool] | None = None
    is_undone: Callable[[Connection, Collection[int | str | None]], bool] | None = None
    may_call: Callable[[str], bool] | None = None

    # `flask outbox check`
    lacking_privileges: Callable[[Connection, Sequence[str], str | None], list[str]] | None = None
    elsewhere: Callable[[Connection, str], str | None] | None = None  # of a missing table's name
    session_errors: Callable[[Connection], list[str]] | None = None
    read_only_errors: Callable[[Connection], list[str]] | None = None
    refusals: Callable[[Connection], list[str]] | None = None
    encoding_warnings: Callable[[Connection], list[str]] | None = None
    is_cut_off: Callable[[Connection], bool] | None = None
    cluster_lines: Callable[[Connection], list[str]] | None = None
    durability_warnings: Callable[[Connection], list[str]] | None = None
    idle_warnings: Callable[[Connection], list[str]] | None = None
    replica_warnings: Callable[[Connection], list[str]] | None = None
    packet_warnings: Callable[[Connection, int], list[str]] | None = None
    vacuum_warnings: Callable[[Connection, Sequence[str]], list[str]] | None = None
    id_warnings: Callable[[Connection, Sequence[Table]], list[str]] | None = None
