"""What a person does to one message: each act is a verb of the outbox, and goes into the audit."""

from __future__ import annotations

from flask import redirect, request
from flask.typing import ResponseReturnValue

from ...domain.errors import SentAgain
from ...flask_ext.app.state import state_of
from ...flask_ext.management import corrections, source
from ...flask_ext.management.management import Management
from ...flask_ext.management.source import EndedAnew
from ...flask_ext.management.verbs import unwatched
from ...flask_ext.restore.verbs import Restoring
from ..site.done import since_of_form
from ..site.led import lead_to
from ..site.render import here
from ..site.site import Site, visitor
from ..site.told import lead_to_list


def add_to(site: Site) -> None:
    """Add the acts."""
    rule = "/messages/<outbox_number:email_id>"
    for act in (retry, cancel, resolve, suppress, release):
        site.action(f"{rule}/{act.__name__}", act)
    site.action(f"{rule}/send-again", send_again)


def retry(email_id: int) -> ResponseReturnValue:
    """Send it as it is, unless it was sent since the page was made: retried, or as a new one."""
    runtime, seen = state_of().writer_runtime, request.form.get("seen", type=int)
    corrections.retry(
        runtime, email_id, None, unwatched, visitor().who, since=since_of_form(), seen=seen
    )
    return _back(email_id)


def cancel(email_id: int) -> ResponseReturnValue:
    """Withdraw it."""
    Management().cancel_now(email_id, by=visitor().who)
    return _back(email_id)


def resolve(email_id: int) -> ResponseReturnValue:
    """Settle its doubt, unless that is another one by now, or it was sent again as a new one."""
    runtime, seen = state_of().writer_runtime, request.form.get("seen", type=int)
    outcome = request.form.get("outcome", "")
    corrections.resolve(runtime, email_id, outcome, visitor().who, since=since_of_form(), seen=seen)
    return _back(email_id)


def suppress(email_id: int) -> ResponseReturnValue:
    """Put one of its recipients on the suppression list."""
    reason = f"by hand, from message {email_id}"
    address = request.form.get("address", "")
    done = Management().suppress(address, reason, by=visitor().who)
    return lead_to_list(address, "added" if done else "known")


def release(email_id: int) -> ResponseReturnValue:
    """Let it go, if it is held since a restore."""
    Restoring().release(email_id, by=visitor().who)
    return _back(email_id)


def send_again(email_id: int) -> ResponseReturnValue:
    """Enqueue its content as a new message, and lead to that.

    A second click changes nothing. So it is with a person whose page does not show that another one
    did it, or retried it.
    """
    runtime, seen = state_of().writer_runtime, request.form.get("seen", 0, type=int)
    try:
        made = source.send_again(runtime, email_id, visitor().who, seen, since_of_form())
    except SentAgain:
        return lead_to(here("one_show", email_id=email_id, again=1), "again")
    except EndedAnew:
        return lead_to(here("one_show", email_id=email_id, anew=1), "anew")
    return redirect(here("one_show", email_id=made.id, copy_of=email_id), 303)


def _back(email_id: int) -> ResponseReturnValue:
    return redirect(here("one_show", email_id=email_id, done=1), 303)
