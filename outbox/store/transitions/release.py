"""claimed, sending → pending, expired, suppressed, failed, sent, unknown: they are not sent now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from uuid import UUID

from sqlalchemy import Connection, Update, update

from ...domain.delivery.outcome import RecipientStatus
from ...domain.delivery.status import Status
from ..connection.database import Database
from ..connection.error_codes import is_refusal
from ..connection.list_parts import among, parts
from ..connection.one_by_one import each_for_itself, faulty_of
from ..connection.row_locks import Locked, lock, lock_claim, lock_ids, seen
from ..control.passed_over import pass_over
from ..due_times import first_due
from ..end_emails import end_emails
from ..erasure.at_once import erase_suppressed
from ..recipients import having


def give_back(
    connection: Connection, database: Database, token: UUID, *, but: Collection[int] = ()
) -> bool:
    """Give back, unsent and uncharged, the emails that this claim still has, except `but`.

    The caller knows that it sent none of them. Emails that expired meanwhile end here. The others
    keep their place: their due time is the first one again. Returns whether the claim has no
    email any more. An email that a user's transaction has locked keeps its token, and is given
    back later.
    """
    ours = database.tables.email.c.token == token
    free = lock_claim(connection, database, ours) - frozenset(but)
    _give_back_each(connection, database, token, free)
    return not seen(connection, database, ours)


def give_back_claimed(connection: Connection, database: Database, token: UUID) -> bool:
    """Give back the emails that wait for a window. The batch goes on with its open window.

    Returns whether some are left, because another transaction has locked them.
    """
    email = database.tables.email.c
    claimed = (email.token == token) & (email.status == Status.CLAIMED)
    free = lock_claim(connection, database, claimed)
    is_any_locked = not free.issuperset(seen(connection, database, claimed))
    _give_back_each(connection, database, token, free)
    return is_any_locked


def _give_back_each(
    connection: Connection, database: Database, token: UUID, ids: Collection[int]
) -> None:
    """Give back these emails; one whose row alone fails keeps its token, and no other one."""

    def work(some: frozenset[int]) -> None:
        give_back_locked(connection, database, token, some)

    each_for_itself(connection, ids, work, "given back")


def give_back_locked(
    connection: Connection, database: Database, token: UUID, ids: Collection[int]
) -> None:
    """Give back these emails. The caller has locked their rows."""
    if not ids:
        return
    email = database.tables.email
    ours = (email.c.token == token) & among(database, ids)
    over = (email.c.status == Status.CLAIMED) & (email.c.expires_at <= database.now())
    end_emails(connection, database, lock(connection, database, ours & over), Status.EXPIRED)
    waiting = {"status": Status.PENDING, "token": None, "due_at": first_due(email)}
    connection.execute(update(email).where(ours).values(**waiting))


def give_back_to_lanes(
    database: Database, token: UUID, homes: Mapping[str, Sequence[int]], *, seconds: float = 0.0
) -> None:
    """Give claimed emails back, unsent and uncharged, to the lanes named in `homes`.

    Their limits have changed since they were enqueued. They rest there for so many `seconds`.
    An email that a user's transaction has locked stays claimed: the end of the batch gives it back.
    """
    email = database.tables.email
    ours = (email.c.token == token) & (email.c.status == Status.CLAIMED)
    due_at = database.now(seconds) if seconds else first_due(email)

    def work(connection: Connection) -> None:
        for lane, ids in sorted(homes.items()):
            free = lock_ids(connection, database, ours & among(database, ids))
            back = update(email).values(status=Status.PENDING, token=None, due_at=due_at, lane=lane)

            def move(some: frozenset[int], back: Update = back) -> None:
                connection.execute(back.where(ours, among(database, some)))

            _each_or_refused(connection, database, free, move, "given back")

    database.run(work)


def suppress(
    connection: Connection,
    database: Database,
    token: UUID,
    ids: Sequence[int],
    partly: Mapping[int, Collection[str]] = MappingProxyType({}),
    erased: Collection[int] = (),
) -> frozenset[int]:
    """End the claimed emails `ids`, whose remaining recipients are all suppressed.

    Such an email fails if a recipient was refused before, because not all recipients are on the
    list. `partly` names the suppressed recipients of other emails. They are left out before
    anything is sent, so that a worker that is lost later leaves no doubt about them. Those of the
    emails that are in `erased` are each to an erased person alone: with its end it is erased.
    Returns the emails whose rows alone fail: none of them may be sent. Raises the error of one that
    is refused.
    """
    email, both = database.tables.email.c, [*ids, *partly]
    claimed = (email.token == token) & (email.status == Status.CLAIMED)
    # Lock first: if the lease was lost meanwhile, the recipients must not change either.
    locked = lock(connection, database, claimed & among(database, both))

    def work(some: frozenset[int]) -> None:
        rows = [row for row in locked if row.id in some]
        _suppress(connection, database, rows, partly)

    ours = [row.id for row in locked]
    faulty = _each_or_refused(connection, database, ours, work, "suppressed")
    erase_suppressed(connection, database, frozenset(erased).intersection(ours) - faulty)
    return faulty


def _each_or_refused(
    connection: Connection,
    database: Database,
    ids: Collection[int],
    work: Callable[[frozenset[int]], object],
    what: str,
) -> frozenset[int]:
    """Do `work` for these emails; raise the error of one that is refused.

    That ends the batch, and the crashes that are charged for it end the email. Other emails whose
    rows alone fail are returned. No claim takes them for a while: they go back uncharged, and each
    batch would find them again at once.
    """
    faulty = faulty_of(connection, ids, work, what)
    for error in filter(is_refusal, faulty.values()):
        raise error
    pass_over(database, faulty)
    return frozenset(faulty)


def _suppress(
    connection: Connection,
    database: Database,
    locked: Sequence[Locked],
    partly: Mapping[int, Collection[str]],
) -> None:
    over = [row for row in locked if row.id not in partly]
    several = [row.id for row in over if row.recipients > 1]
    refused = having(connection, database, several, RecipientStatus.FAILED)
    failed = [row for row in over if row.id in refused]
    suppressed = [row for row in over if row.id not in refused]
    end_emails(connection, database, failed, Status.FAILED)
    end_emails(connection, database, suppressed, Status.SUPPRESSED)
    recipient = database.tables.recipient
    leave_out = (
        update(recipient)
        .where(recipient.c.status == RecipientStatus.PENDING)
        .values(status=RecipientStatus.SUPPRESSED)
    )
    for part in parts(several):
        connection.execute(leave_out.where(recipient.c.email_id.in_(part)))
    for email_id in partly.keys() & {row.id for row in locked}:
        own = leave_out.where(recipient.c.email_id == email_id)
        for barred in parts(sorted(partly[email_id])):
            connection.execute(own.where(recipient.c.address.in_(barred)))
