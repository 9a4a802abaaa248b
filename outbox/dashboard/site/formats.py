"""How the templates print times, sizes and words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from ...domain.counted import counted
from ...store.queries.standstill import MOST_COUNTED
from .clock import now

_STEPS = ((86_400 * 365, "year"), (86_400 * 30, "month"), (86_400, "day"), (3600, "hour"))
_STEPS_BELOW = ((60, "minute"), (1, "second"))
_SHORT = ((86_400, "d"), (3600, "h"), (60, "min"))


def moment(value: datetime) -> Markup:
    """Print a time in UTC to the second. A script of ours may turn it into the reader's own."""
    exact = value.astimezone(UTC)
    # Numbers and words of ours need no escaping, and a page of charts has hundreds of times.
    return Markup(  # noqa: S704
        f'<time datetime="{exact.isoformat(timespec="seconds")}" title="{ago(value)}">'
        f"{exact:%d %b %Y, %H:%M:%S}</time>"
    )


def ago(value: datetime) -> str:
    """Print how long ago a time was, or how soon it will be."""
    seconds = (value - now()).total_seconds()
    return f"in {duration(seconds)}" if seconds >= 1 else past(value)


def past(value: datetime) -> str:
    """Print how long ago something was. The clock that it has may be ahead of this host's."""
    seconds = (now() - value).total_seconds()
    return "just now" if seconds < 1 else f"{duration(seconds)} ago"


def duration(seconds: float) -> str:
    """Print a span of time by its largest unit."""
    for size, unit in (*_STEPS, *_STEPS_BELOW):
        if seconds >= size:
            return counted(int(seconds // size), unit)
    return f"{seconds * 1000:.0f} ms"


def span(seconds: float | None) -> str:
    """Print a measured span of time in little room."""
    if seconds is None:
        return "\N{EN DASH}"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds else "0 s"
    for size, unit in _SHORT:
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}".replace(".0 ", " ")
    return f"{seconds:.1f} s".replace(".0 ", " ")


def bounded(number: int, more: bool = False) -> str:
    """Print a number that is counted up to a limit only; `more`: another one has reached it."""
    return f"{number:,}+" if more or number >= MOST_COUNTED else f"{number:,}"


def tone(state: str) -> str:
    """Return in which tone a worker's state is printed."""
    return {"busy": "good", "idle": "good", "silent": "late", "dead": "bad"}.get(state, "")


def octets(size: int) -> str:
    """Print a size."""
    if size < 1000:
        return counted(size, "octet")
    if size < 1_000_000:
        return f"{size / 1000:.1f} kB"
    return f"{size / 1_000_000:.1f} MB"


def what(value: Mapping[str, Any]) -> str:
    """Print what an entry of the audit is about."""
    return "; ".join(_about(name, found) for name, found in value.items())


def sentence(text: str) -> str:
    """Raise the first letter alone: what follows may be a name, a setting or a time."""
    return text[:1].upper() + text[1:]


def day_or_time(text: str, name: str) -> str:
    """Print the filter `since` or `until`: a day of the form, or the moment that a job has."""
    if "T" in text:
        return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return f"the end of {text} UTC" if name == "until" else f"{text} UTC"


def _about(name: str, found: Any) -> str:
    match name:
        case "addresses":
            return counted(found, "address", "addresses")
        case "emails":
            return counted(found, "message")
        case "ids":
            return f"messages {', '.join(map(str, found))}"
    return f"{name} {found}"


FILTERS = {
    "moment": moment,
    "ago": ago,
    "past": past,
    "duration": duration,
    "span": span,
    "bounded": bounded,
    "tone": tone,
    "octets": octets,
    "what": what,
    "sentence": sentence,
    "day_or_time": day_or_time,
    "counted": counted,
}
