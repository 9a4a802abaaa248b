"""An order for a job: what to do, and to which emails. It is checked, and can be stored as text."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from ..config.search_terms import Term
from ..delivery.status import NEEDS_PERSON, Status, sources
from ..errors import InvalidMessage
from ..search.filters import GROUPED, Filters
from ..search.last_attempt import NONE


class Action(StrEnum):
    """What a job does to each email."""

    RETRY = "retry"
    CANCEL = "cancel"
    AS_SENT = "resolve as sent"
    AS_FAILED = "resolve as failed"

    @property
    def outcome(self) -> Status:
        """The status in which an email is after it, or in which a doubt is settled."""
        return _OUTCOMES[self]

    @property
    def statuses(self) -> tuple[Status, ...]:
        """The statuses that an email may have before it."""
        return _STATUSES[self]


class JobState(StrEnum):
    """How a job stands."""

    RUNNING = "running"  # sweeps go on with it
    STOPPED = "stopped"  # by a person, or by an error; it can be resumed
    DONE = "done"  # it has gone through all its emails, and keeps no address and no subject


_OUTCOMES = {
    Action.RETRY: Status.PENDING,
    Action.CANCEL: Status.CANCELLED,
    Action.AS_SENT: Status.SENT,
    Action.AS_FAILED: Status.FAILED,
}
_STATUSES = {
    Action.RETRY: tuple(sorted(NEEDS_PERSON)),
    Action.CANCEL: sources(Status.CANCELLED),
    Action.AS_SENT: (Status.UNKNOWN,),
    Action.AS_FAILED: (Status.UNKNOWN,),
}

PERSONAL = ("recipient", "message_id", "subject", "key")
"""The filters that may name a person. They are stored apart, and only as long as the job needs."""

Texts = dict[str, str]
"""Filters as texts, by their names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """What a job does, and to which emails: those in one of its `statuses` that the filters fit."""

    action: Action
    filters: Filters

    @classmethod
    def check(cls, indexed: Collection[Term], action: Any, **given: Any) -> Order:
        """Return the order, or raise InvalidMessage for what breaks a rule.

        To retry, a status is needed: a retry of a failed email is harmless, and that of an unknown
        one may bring a second copy. To cancel, at least one filter is needed.
        """
        if not isinstance(action, str) or action not in list(Action):
            raise InvalidMessage("action", f"must be one of {', '.join(Action)}")
        chosen = Action(action)
        if given.get("status") is None and len(chosen.statuses) == 1:
            given["status"] = chosen.statuses[0]
        filters = Filters.check(indexed, **given)
        if filters.status is not None and filters.status not in chosen.statuses:
            raise InvalidMessage("status", _MUST.format(" or ".join(chosen.statuses), chosen))
        if filters.status is None and chosen is Action.RETRY:
            raise InvalidMessage("status", _MUST.format(" or ".join(chosen.statuses), chosen))
        if filters == Filters():
            raise InvalidMessage("status", f"give at least one filter, for the action {chosen}")
        return cls(action=chosen, filters=filters)

    @property
    def statuses(self) -> tuple[Status, ...]:
        """The statuses of the emails that it is for."""
        chosen = self.filters.status
        return self.action.statuses if chosen is None else (chosen,)


_MUST = "must be {}, for the action {}"


def texts_of(filters: Filters) -> tuple[Texts, Texts]:
    """Return the filters as texts: those that name nobody, and those that may name a person."""
    given = {each.name: getattr(filters, each.name) for each in fields(filters)}
    texts = {name: text_of(name, value) for name, value in given.items() if value is not None}
    plain = {name: text for name, text in texts.items() if name not in PERSONAL}
    return plain, {name: text for name, text in texts.items() if name in PERSONAL}


def values_of(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return what `Filters.check` takes, from texts as `texts_of` makes them, or has made them."""
    return {
        name: datetime.fromisoformat(text) if name in ("since", "until") else text_of(name, text)
        for name, text in texts.items()
    }


def text_of(name: str, value: Any) -> str:
    """Return a filter's value as text, which is told, and may be given to another job."""
    if name in GROUPED and value == "":  # some jobs have it stored so
        return NONE
    return value.isoformat() if isinstance(value, datetime) else str(value)
