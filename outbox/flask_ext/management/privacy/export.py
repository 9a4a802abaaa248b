"""Exports what the outbox has of one person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import Connection

from ....domain.config.search_terms import Term
from ....domain.header.address import check_address, suppression_key
from ....store.connection.database import Database
from ....store.control import suppression
from ....store.erasure.find import emails_of
from ....store.erasure.naming import stands_in
from ....store.queries import reports
from ....store.queries.whole_emails import by_id
from ....store.report_records import EmailDetails, RecipientDetails, Suppression
from .message import MessageText

if TYPE_CHECKING:
    from ....worker.process.runtime import Runtime


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportedEmail:
    """An email to the person, without what it tells of its other recipients.

    `message` is None if the body was removed, is damaged, or needs an encryption key that is
    missing: `subject` then says so.
    """

    email: EmailDetails
    message: MessageText | None


Exported: TypeAlias = Suppression | ExportedEmail


def export(runtime: Runtime, address: Any, scan: bool) -> Iterator[Exported]:
    """Yield the person's entry in the suppression list, and their emails, the newest first."""
    whom, database = check_address(address, "address"), runtime.database
    scan = scan or Term.RECIPIENT not in runtime.settings.indexed
    listed = database.read(lambda c: suppression.suppressed(c, database, address=whom))
    return _all(database, whom, listed, scan)


def _all(
    database: Database, whom: str, listed: Sequence[Suppression], scan: bool
) -> Iterator[Exported]:
    yield from listed
    for ids in emails_of(database, whom, scan=scan):
        for email_id in ids:
            found = database.read(partial(_one, database=database, email_id=email_id, whom=whom))
            if found is not None:
                yield found


def _one(
    connection: Connection, database: Database, email_id: int, whom: str
) -> ExportedEmail | None:
    email = reports.detail(connection, database, email_id)
    if email is None:  # purged meanwhile
        return None
    whole = by_id(connection, database, email_id)
    message = None if whole is None else MessageText.of(whole.octets)
    return ExportedEmail(email=_of_person(email, whom), message=message)


def _of_person(email: EmailDetails, whom: str) -> EmailDetails:
    """Return the email as the person may see it. Others' addresses may stand in more than a list.

    The trace is left out: it is that of the request that enqueued it, mostly another person's.
    """
    email = replace(email, trace_id=None)
    if email.recipients == 1:
        return email
    own, others = list[RecipientDetails](), list[str]()
    for one in email.recipient_list:
        if suppression_key(one.address) == suppression_key(whom):
            own.append(one)
        else:
            others.append(one.address)

    def names_another(text: str | None) -> bool:
        return any(stands_in(text, address, others=[whom]) for address in others)

    return replace(
        email,
        recipient=whom,
        recipient_list=tuple(own),
        attempt_list=tuple(replace(attempt, reply="") for attempt in email.attempt_list),
        key=None if names_another(email.key) else email.key,
        tag=None if names_another(email.tag) else email.tag,
        envelope_from="" if names_another(email.envelope_from) else email.envelope_from,
    )
