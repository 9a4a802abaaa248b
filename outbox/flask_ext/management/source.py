"""The octets of an email: read as they are sent, or enqueued once more as a new message."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from ...domain.config.enqueue_options import Options
from ...domain.errors import InvalidMessage, SentAgain
from ...domain.message.render import RenderedMessage
from ...domain.message.renew import own_sender, renewed
from ...store.bounded_waits import run_bounded
from ...store.connection.database import Database
from ...store.connection.row_locks import seen as found_among
from ...store.control import audit, counter
from ...store.new_email import NewEmail
from ...store.queries import whole_emails
from ...store.queries.whole_emails import Original
from ...store.records import Email
from ...store.transitions.enqueue import Writer
from ...worker.tracing import traceparent
from .arguments import one_id
from .audit import act_of, copied_as

if TYPE_CHECKING:
    from ...worker.process.runtime import Runtime


AGAIN = "send again"
"""What the audit calls it where a message was sent once more as a new one."""
ACTS = 20
"""How many of the newest acts on an email are looked at."""


def source(runtime: Runtime, id: Any) -> bytes | None:  # noqa: A002
    """Return an email's octets, or None."""
    database, wanted = runtime.database, one_id(id)
    found = database.read(lambda c: whole_emails.by_id(c, database, wanted))
    return None if found is None else found.octets


class EndedAnew(Exception):
    """The email was retried since it ended as a page shows, and may have gone out meanwhile."""


def send_again(
    runtime: Runtime,
    id: Any,  # noqa: A002
    by: Any,
    seen: Any = None,
    since: datetime | None = None,
) -> Email:
    """Enqueue an email's content once more, as a message of its own.

    Raises SentAgain if somebody did so after the audit's entry `seen`, also at the same moment.
    With `since` raises EndedAnew unless the email ended at that moment, and is as it was then.
    """
    wanted, act = one_id(id), act_of(by, AGAIN)
    if seen is not None and (not isinstance(seen, int) or isinstance(seen, bool)):
        raise InvalidMessage("seen", "must be the id of an entry of the audit, or 0")
    database = runtime.database

    def enqueue(connection: Connection) -> Email:
        if seen is not None:
            # Not the email's own row: another transaction may hold that, also the caller's session.
            counter.put(connection, database, counter.COPIED, wanted)
            if was_sent_again(connection, database, wanted, seen):
                raise SentAgain("the email was sent again since this person looked")
        if since is not None and not _ended_at(connection, database, wanted, since):
            raise EndedAnew
        found = whole_emails.by_id(connection, database, wanted)
        if found is None:
            raise InvalidMessage("id", "is that of no email whose content is there")
        size = runtime.settings.reuse_size
        indexed = runtime.settings.indexed
        writer = Writer(connection=connection, database=database, reuse_size=size, indexed=indexed)
        made = writer.add(_new(runtime, found))
        if act is not None:
            act.note(connection, database, copied_as(made.id), wanted)
        return made

    return run_bounded(database, enqueue)


def was_sent_again(connection: Connection, database: Database, email_id: int, seen: int) -> bool:
    """Return whether the audit says so behind its entry `seen`."""
    newest = audit.entries(connection, database, limit=ACTS, email_id=email_id)
    return any(one.id > seen and one.action == AGAIN for one in newest)


def _ended_at(connection: Connection, database: Database, email_id: int, since: datetime) -> bool:
    email = database.tables.email.c
    return bool(
        found_among(connection, database, (email.id == email_id) & (email.finished_at == since))
    )


def _new(runtime: Runtime, email: Original) -> NewEmail:
    """Return the new email. It has no key, and neither a time of its own nor an end.

    Its trace is that of the request that sends it again.
    """
    mail_options, rcpt_options = email.esmtp_options
    sender = own_sender(email.octets, email.sender)
    message = renewed(
        RenderedMessage(
            sender=sender,
            recipients=email.recipients,
            message_id=email.message_id,
            headers=b"",
            content=email.octets,
            smtputf8=email.smtputf8,
            mail_options=mail_options,
            rcpt_options=rcpt_options,
        ),
        split_size=runtime.settings.reuse_size,
        domain=runtime.settings.message_id_domain,
    )
    options = Options(
        priority=email.priority,
        tag=email.tag,
        on_unknown=email.on_unknown,
        max_attempts=email.max_attempts,
        envelope_from=email.sender,
        redact=email.redact,
    )
    route = runtime.routes.route_of(sender, email.tag)
    return NewEmail(message, options, runtime.lanes.of(route, email.recipients), traceparent())
