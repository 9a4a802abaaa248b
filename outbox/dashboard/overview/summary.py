"""Says in one line whether all is well, and lists what is not, with what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ...domain.counted import counted
from ...flask_ext.management.checks.codes import Code
from ...flask_ext.management.health import HealthLine, Overview
from ...flask_ext.management.server_lines import server_line
from ...store.report_records import Pause

_OF_FLEET = (
    Code.BEAT_DEAD,
    Code.DIFFERING,
    Code.NO_TASKS,
    Code.UNHEARD,
    Code.VERSIONS,
    Code.WORKER_DEAD,
    Code.WORKER_SILENT,
)
_LINKS: Mapping[Code | None, tuple[str, str]] = {
    Code.CONTENTS: ("problems_index", "See the problems"),
    Code.CRASHING: ("one_show", "See the message"),
    Code.HELD: ("held_index", "See what is held"),
    **dict.fromkeys(_OF_FLEET, ("workers_index", "See the workers")),
}
"""The page where a person sees more of what has this code, or can mend it; and the link's words."""


@dataclass(frozen=True, kw_only=True)
class Remark:
    """Something that is not as it should be, with what to do."""

    text: str
    is_grave: bool  # emails do not leave as they should
    page: str = ""  # the endpoint of the page where a person can mend it
    values: Mapping[str, int] = field(default_factory=dict)  # of that page's address
    label: str = ""  # of the link to that page


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The line at the top, and the list below it."""

    line: str
    tone: str  # "good", "late" or "bad"
    remarks: tuple[Remark, ...]


def summarise(now: Overview, switched: Iterable[HealthLine]) -> Summary:
    """Sum up what was found. `switched`: what the app's settings keep from being sent as usual."""
    remarks = (*_grave(now), *_small(now, switched))
    if not now.health.healthy:
        return Summary(line="Not all emails leave.", tone="bad", remarks=remarks)
    if remarks:
        told = counted(len(remarks), "thing needs", "things need")
        return Summary(line=f"Emails leave, and {told} a look.", tone="late", remarks=remarks)
    return Summary(line="All is well.", tone="good", remarks=())


def _grave(now: Overview) -> Iterator[Remark]:
    for one in now.problems:
        if one.code is not Code.PAUSED:  # those are told with a link to their page
            yield _remark(one, is_grave=True)
    for server in now.health.alerts:
        yield Remark(text=server_line(server), is_grave=True)


def _small(now: Overview, switched: Iterable[HealthLine]) -> Iterator[Remark]:
    health = now.health
    yield from (_pause(one, is_grave=not health.healthy) for one in now.pauses)
    told = {one.code for one in now.problems}
    yield from (_remark(one, is_grave=False) for one in switched if one.code not in told)
    for server in health.servers:
        if server.since and server.configured and server not in health.alerts:
            yield Remark(text=server_line(server), is_grave=False)
    yield from (_remark(one, is_grave=False) for one in now.warnings)


def _pause(one: Pause, *, is_grave: bool) -> Remark:
    what = "everything is" if one.scope == "all" else f"the priority {one.scope} is"
    text = f"{what} paused: nothing of it is sent until somebody resumes it"
    return Remark(text=text, is_grave=is_grave, page="pauses_index", label="See the pauses")


def _remark(line: HealthLine, *, is_grave: bool) -> Remark:
    page, label = _LINKS.get(line.code, ("", ""))
    values = {} if line.email_id is None else {"email_id": line.email_id}
    return Remark(text=line.text, is_grave=is_grave, page=page, values=values, label=label)
