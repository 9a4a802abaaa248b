"""How an email is to be sent: priority, times, key, tag and policies, checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, TypeAlias

from ..errors import InvalidMessage
from ..header.address import CONTROL, check_address
from ..priority import Priority
from .settings import MOST_TRIES, OnUnknown

MAX_KEY = 255
MAX_TAG = 100
MAX_ID = 2**63 - 1
YEARS = range(1970, 9000)
_NONE = re.compile(r"(?<![^\W_])None(?![^\W_])")

Redact: TypeAlias = Literal["when sent"]
"""When a message's body is removed, and its email stays."""


class Reading(NamedTuple):
    """What a clock says, and what the clock is called."""

    moment: datetime  # aware
    clock: str


class Options(NamedTuple):
    """Checked options of one enqueue. Times are in UTC; None means the setting's value."""

    priority: Priority
    send_at: datetime | None = None
    expires_at: datetime | None = None
    key: str | None = None
    tag: str | None = None
    on_unknown: OnUnknown | None = None
    max_attempts: int | None = None
    envelope_from: str | None = None  # in the envelope only; "" is the null reverse path
    redact: bool = False  # the body goes with the recording of the email's end

    @classmethod
    def check(
        cls,
        *,
        priority: Any,
        send_at: Any = None,
        expires_at: Any = None,
        key: Any = None,
        tag: Any = None,
        on_unknown: Any = None,
        max_attempts: Any = None,
        envelope_from: Any = None,
        redact: Any = None,
        now: Callable[[], Reading] | None = None,
    ) -> Options:
        """Return the options, or raise InvalidMessage for the first one that breaks a rule.

        With `now`, an `expires_at` that has passed by this clock is refused.
        """
        # Most emails have none of these: every enqueue passes here.
        starts = None if send_at is None else _check_time("send_at", send_at)
        ends = None if expires_at is None else _check_time("expires_at", expires_at)
        if starts and ends and ends <= starts:
            raise InvalidMessage("expires_at", "must be after send_at")
        if ends and now is not None and ends <= (read := now()).moment:
            raise InvalidMessage("expires_at", f"has passed already, by {read.clock}")
        if on_unknown is not None and on_unknown not in list(OnUnknown):
            raise InvalidMessage("on_unknown", f"must be one of {', '.join(OnUnknown)}")
        if max_attempts is not None and not _is_count(max_attempts):
            raise InvalidMessage("max_attempts", f"must be a number from 1 to {MOST_TRIES}")
        if redact is not None and redact != "when sent":
            raise InvalidMessage("redact", 'must be "when sent"')
        return cls(
            priority=Priority.of(priority),
            send_at=starts,
            expires_at=ends,
            key=None if key is None else _check_key(key),
            tag=None if tag is None else check_name("tag", tag, MAX_TAG),
            on_unknown=None if on_unknown is None else OnUnknown(on_unknown),
            max_attempts=max_attempts,
            envelope_from=None if envelope_from is None else _reverse_path(envelope_from),
            redact=redact is not None,
        )


def _check_time(field: str, value: Any) -> datetime | None:
    """Return a moment in UTC that each driver can read again, or raise InvalidMessage.

    PostgreSQL tells a moment in the time zone of its session. There the last hours of the year 9999
    are in the year 10000, which Python cannot hold: no sweep and no batch that met one could go on.
    """
    moment = check_moment(field, value)
    if moment is not None and moment.year not in YEARS:
        rule = f"must be from the year {YEARS.start} to {YEARS[-1]}; for no limit leave it out"
        raise InvalidMessage(field, rule)
    return moment


def _check_key(value: Any) -> str | None:
    """Return the key, or raise InvalidMessage."""
    key = check_name("key", value, MAX_KEY)
    if key is not None:
        refuse_none(key)
    return key


def refuse_none(key: str, addresses: Iterable[str] = ()) -> None:
    """Raise InvalidMessage if the key has `None` outside of these addresses.

    `f"order-{order.id}"` is `order-None` before the flush. The next order's key would be the same,
    and if the emails were alike, no second one would be enqueued, without a word.
    """
    for address in addresses:
        key = key.replace(address, "")
    if _NONE.search(key):
        raise InvalidMessage("key", "has None in the place of an id: call session.flush() before")


def _reverse_path(value: Any) -> str:
    """Return the address for bounces; for `<>`, the null reverse path, "" (RFC 5321 §4.5.5)."""
    return "" if value == "<>" else check_address(value, "envelope_from")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_TRIES


def check_moment(field: str, value: Any) -> datetime | None:
    """Return a moment in UTC, or raise InvalidMessage."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise InvalidMessage(field, "must be a datetime")
    if value.utcoffset() is None:
        raise InvalidMessage(field, "must be aware: give it a time zone, such as datetime.UTC")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise InvalidMessage(field, "is out of range in UTC") from None


def check_id(value: Any) -> int | None:
    """Return an email's id, or raise InvalidMessage."""
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= MAX_ID:
        raise InvalidMessage("id", f"must be a number from 1 to {MAX_ID}")
    return value


def check_name(field: str, value: Any, longest: int) -> str | None:
    """Return a key or tag, or raise InvalidMessage.

    Blanks at the ends are refused because some collations ignore them. Two keys that differ only in
    those blanks would be one key on one database and two on another.
    """
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        raise InvalidMessage(field, f"must be text of 1 to {longest} characters")
    if CONTROL.search(value):
        raise InvalidMessage(field, "must not contain control characters or line breaks")
    if value != value.strip():
        raise InvalidMessage(field, "must not begin or end with a blank")
    return value
