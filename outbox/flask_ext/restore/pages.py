"""What a page does with held emails: it shows a bounded number, and releases part by part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...domain.config.enqueue_options import MAX_TAG, check_name
from ...domain.errors import InvalidMessage
from ...store.due_times import is_held
from ...store.instance import hold
from ...store.instance.examine import look
from ...store.instance.held import HeldGlance, first_held, glance
from ...store.queries.id_steps import Walk
from ..management.arguments import one_id, priority_of
from ..management.audit import Act, act_of, noted
from ..management.corrections import Part, do_part
from . import holding

if TYPE_CHECKING:
    from ...worker.process.runtime import Runtime

_NOTHING = HeldGlance(emails=0, more=False, groups=(), more_groups=0, first=())


def shown(runtime: Runtime, *, groups: int, emails: int) -> HeldGlance:
    """Return what is held; without a restore nothing is looked for."""
    database = runtime.database
    instance = look(database, runtime.settings.instance).instance
    if instance is None or not instance.has_held:
        return _NOTHING
    return database.read(
        lambda connection: glance(connection, database, groups=groups, emails=emails)
    )


def release_part(
    runtime: Runtime,
    *,
    tag: Any,
    priority: Any,
    scheduled: bool,
    everything: bool,
    after: Any,
    by: str,
) -> Part:
    """Release the next of the held emails that fulfil each condition given, as `release` does."""
    name, which = check_name("tag", tag, MAX_TAG), priority_of(priority)
    is_filtered = name is not None or which is not None or scheduled
    if is_filtered is everything:
        raise InvalidMessage("tag", "give what to release, or release everything")
    database = runtime.database
    email = database.tables.email
    lowest = database.read(lambda connection: first_held(connection, database))
    if lowest is None:
        holding.note_end(runtime)
        return Part(changed=0, locked=0, next=None)
    wanted = is_held(email)
    if which is not None:
        wanted &= email.c.priority == int(which)
    if scheduled:
        wanted &= email.c.send_at > database.now()
    act = release_act(name, priority, scheduled=scheduled, by=by)
    work = noted(hold.release, act, "released")
    walk = Walk(tag=name, lowest=lowest, wanted=wanted)
    done = do_part(database, work, walk, None if after is None else one_id(after))
    if done.changed:
        holding.note_end(runtime)
    return done


def release_act(tag: Any, priority: Any, *, scheduled: bool, by: str) -> Act | None:
    """Return what the audit calls it."""
    return act_of(by, "release", **holding.what(tag, priority_of(priority), scheduled=scheduled))
