"""A place in a list of emails, newest first, and its text: where the next page begins."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ..config.enqueue_options import MAX_ID
from ..errors import InvalidMessage

_TEXT = re.compile(r"([0-9]{1,19})(?:\.([0-9]{1,18}))?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Place(NamedTuple):
    """An email in a list: its id, and its moment where the list is ordered by moments."""

    id: int
    moment: datetime | None = None

    def __str__(self) -> str:
        """Return the text for `after`: it may stand in a URL and in a shell's command."""
        if self.moment is None:
            return str(self.id)
        return f"{self.id}.{(self.moment - _EPOCH) // _MICROSECOND}"


def read_place(given: object) -> Place | None:
    """Read what a page gave as its `next`, or raise InvalidMessage."""
    if given is None:
        return None
    found = _TEXT.fullmatch(given) if isinstance(given, str) and len(given) < 40 else None
    try:
        if found and 0 < int(found[1]) <= MAX_ID:
            moment = found[2] and _EPOCH + int(found[2]) * _MICROSECOND
            return Place(int(found[1]), moment or None)
    except OverflowError:
        pass  # a moment that no calendar has is no place either
    raise InvalidMessage("after", "must be the `next` of the page before")
