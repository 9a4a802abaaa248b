"""Stops the rest of a newsletter, part by part: what is not sent yet is withdrawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....domain.config.enqueue_options import MAX_TAG, check_name
from ....domain.delivery.status import Status, sources
from ....domain.errors import InvalidMessage
from ....store.queries.id_steps import Walk
from ..arguments import one_id
from ..audit import Act, act_of
from ..corrections import Part, do_part
from .withdrawal import Withdrawal

if TYPE_CHECKING:
    from ....worker.process.runtime import Runtime


def stop_part(runtime: Runtime, tag: Any, after: Any, by: str) -> Part:
    """Withdraw the next emails of a tag that wait, the newest first.

    So it begins at the end that the workers reach last, and never goes through what they have sent
    before it has withdrawn what it can.
    """
    name = _name(tag)
    email = runtime.database.tables.email.c
    waits = email.status.in_(sources(Status.CANCELLED))
    walk = Walk(tag=name, wanted=waits, newest_first=True)
    work = Withdrawal(act=stop_act(name, by))
    place = None if after is None else one_id(after)
    return do_part(runtime.database, work, walk, place, work.others)


def stop_act(tag: Any, by: str) -> Act | None:
    """Return what the audit calls it."""
    return act_of(by, "cancel", tag=_name(tag))


def _name(tag: Any) -> str:
    name = check_name("tag", tag, MAX_TAG)
    if name is None:
        raise InvalidMessage("tag", "give the tag of a newsletter")
    return name
