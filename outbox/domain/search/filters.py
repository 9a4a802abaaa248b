"""Which emails a search is for: filters that are checked, and that an index serves together."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from ..config.enqueue_options import MAX_KEY, MAX_TAG, check_moment, check_name
from ..config.search_terms import Term
from ..delivery.status import NEEDS_PERSON, Status
from ..errors import InvalidMessage
from ..header.address import CONTROL, check_address
from ..message.render import check_message_id
from .last_attempt import check_domain, check_phase, check_reply, check_server
from .subject import MAX_SUBJECT, folded_subject

UNSERVED = frozenset({Status.CANCELLED, Status.EXPIRED, Status.SUPPRESSED})
"""Statuses that no index has: emails that ended so may lie anywhere among millions of others."""

UNINDEXED = "is not indexed"
"""So begins the rule by which a term is refused that no index has."""

GROUPED = ("domain", "server", "reply", "phase")
"""Filters by which emails that need a person are grouped. Among those alone they are looked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Filters:
    """What emails must fulfil, all of it; None leaves it open."""

    recipient: str | None = None  # in the form of the envelope
    message_id: str | None = None
    subject: str | None = None  # the beginning of a subject, as `folded_subject` makes it
    key: str | None = None
    tag: str | None = None
    status: Status | None = None
    since: datetime | None = None  # created at this moment or later
    until: datetime | None = None  # created before this moment
    domain: str | None = None  # of the first recipient, in lower case
    server: str | None = None  # of the last attempt; "": no server judged the email
    reply: str | None = None  # the codes of the last attempt; "": there was no reply
    phase: str | None = None  # the step that decided the last attempt; "": there was none

    @classmethod
    def check(cls, indexed: Collection[Term], **given: Any) -> Filters:
        """Return the filters, or raise InvalidMessage for the first one that breaks a rule.

        A term that is not among the `indexed` is refused, and so is a status alone that no index
        has.
        """
        for term in Term:
            if given.get(term) is not None and term not in indexed:
                raise InvalidMessage(term, f"{UNINDEXED}: OUTBOX_SEARCH leaves it out; {_OTHERS}")
        found = cls(**{name: _CHECKS[name](given.get(name)) for name in _CHECKS})
        for name in GROUPED:
            if getattr(found, name) is not None and not found.needs_person:
                raise InvalidMessage(name, f"is in no index; {_WITH_STATUS}")
        others = (getattr(found, name) for name in _CHECKS if name != "status")
        if found.status in UNSERVED and all(value is None for value in others):
            raise InvalidMessage("status", f"no index has {found.status}; {_OTHERS}")
        if found.since and found.until and found.until <= found.since:
            raise InvalidMessage("until", "must be after since")
        return found

    @property
    def needs_person(self) -> bool:
        """Whether only emails that need a person are wanted."""
        return self.status in NEEDS_PERSON

    @property
    def is_wide(self) -> bool:
        """Whether nothing but a time and a status is asked for."""
        asked = (self.recipient, self.message_id, self.subject, self.key, self.tag)
        return all(value is None for value in asked)

    @property
    def is_of_group(self) -> bool:
        """Whether something is asked for by which emails that need a person are grouped."""
        return any(getattr(self, name) is not None for name in GROUPED)


def _recipient(value: Any) -> str | None:
    return None if value is None else check_address(value, "recipient")


def _message_id(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidMessage("message_id", "must be text")
    given = value.strip()
    try:
        return check_message_id(given if given.startswith("<") else f"<{given}>")
    except InvalidMessage as error:
        raise InvalidMessage("message_id", error.rule) from None


def _subject(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= MAX_SUBJECT or not value.strip():
        raise InvalidMessage("subject", f"must be text of 1 to {MAX_SUBJECT} characters")
    if CONTROL.search(value):
        raise InvalidMessage("subject", "must not contain control characters or line breaks")
    return folded_subject(value)


def _status(value: Any) -> Status | None:
    if value is None:
        return None
    if not isinstance(value, str) or value not in list(Status):
        raise InvalidMessage("status", f"must be one of {', '.join(Status)}")
    return Status(value)


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "recipient": _recipient,
    "message_id": _message_id,
    "subject": _subject,
    "key": lambda value: check_name("key", value, MAX_KEY),
    "tag": lambda value: check_name("tag", value, MAX_TAG),
    "status": _status,
    "since": lambda value: check_moment("since", value),
    "until": lambda value: check_moment("until", value),
    "domain": check_domain,
    "server": check_server,
    "reply": check_reply,
    "phase": check_phase,
}
_OTHERS = f"indexes serve {', '.join(n for n in _CHECKS if n not in ('status', *GROUPED))}"
_WITH_STATUS = f"indexes serve it beside status {' or '.join(sorted(NEEDS_PERSON))}"

assert tuple(_CHECKS) == tuple(each.name for each in fields(Filters))  # noqa: S101
