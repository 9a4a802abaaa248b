"""Withdraws all emails of a tag, and tells which of them ended otherwise than as cancelled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from ....domain.delivery.status import Status
from ....domain.jobs.order import Action
from ....store.connection.database import Database
from ....store.jobs.changes import change_of
from ....store.queries.id_scan import waiting_with_tag
from ..arguments import OnProgress
from ..audit import Act, act_of
from ..corrections import in_parts, scanned

if TYPE_CHECKING:
    from ....worker.process.runtime import Runtime


def cancel_tag(
    runtime: Runtime, tag: str, progress: OnProgress, by: str
) -> tuple[int, Counter[Status], Collection[int]]:
    """Withdraw a tag's emails.

    Returns how many, how many ended otherwise, and the ids that another transaction holds.
    """
    database, withdraw = runtime.database, Withdrawal(act=act_of(by, "cancel", tag=tag))
    total, locked = in_parts(database, withdraw, scanned(waiting_with_tag(database, tag), progress))
    return total, Counter(withdraw.others.values()), locked


@dataclass(kw_only=True)
class Withdrawal:
    """A change that withdraws emails, and keeps which of them ended otherwise than as cancelled.

    That is an email in doubt, or one of which a recipient has a copy.
    """

    act: Act | None
    others: dict[int, Status] = field(default_factory=dict)

    def __call__(self, connection: Connection, database: Database, ids: list[int]) -> int:
        """Withdraw them, with an entry in the audit; return how many are cancelled."""
        for email_id in ids:  # a transaction may be repeated
            self.others.pop(email_id, None)
        ended = change_of(Action.CANCEL, Action.CANCEL.statuses)(connection, database, ids).statuses
        others = {i: end for i, end in ended.items() if end is not Status.CANCELLED}
        self.others |= others
        if self.act is not None:
            told = withdrawn(len(ended) - len(others), Counter(others.values()))
            self.act.note(connection, database, told)
        return len(ended) - len(others)


def withdrawn(cancelled: int, others: Mapping[Status, int]) -> str:
    """Return what a withdrawal has done, such as `3 cancelled, 1 unknown`."""
    return ", ".join([f"{cancelled} cancelled", *(f"{n} {end}" for end, n in others.items())])
