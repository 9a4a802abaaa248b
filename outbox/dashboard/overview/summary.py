"""Says in one line whether all is well, and lists what is not, with what to do. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...domain.counted import counted
from ...flask_ext.management.health import HELD
from ...flask_ext.management.results import Health
from ...flask_ext.management.server_lines import server_line
from ...store.report_records import Pause


@dataclass(frozen=True, kw_only=True)
class Remark:
    """Something that is not as it should be, with what to do."""

    text: str
    is_grave: bool  # emails do not leave as they should
    page: str = ""  # the endpoint of the page where a person can mend it
    values: Mapping[str, int] = field(default_factory=dict)  # of that page's address
    label: str = ""  # of the link to that page


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The line at the top, and the list below it."""

    line: str
    tone: str  # "good", "late" or "bad"
    remarks: tuple[Remark, ...]


def judge(
    health: Health, pauses: Sequence[Pause], switched: Sequence[str], of_fleet: Collection[str]
) -> Judgement:
    """Judge what was found.

    `switched`: what the app's settings keep from being sent as usual. `of_fleet`: what is wrong
    with the workers and beat.
    """
    found = (*_grave(health), *_small(health, pauses, switched))
    of_fleet = {_wordy(text) for text in of_fleet}
    remarks = tuple(_linked(one, health, of_fleet) for one in found)
    if not health.healthy:
        return Judgement(line="Not all emails leave.", tone="bad", remarks=remarks)
    if remarks:
        told = counted(len(remarks), "thing needs", "things need")
        return Judgement(line=f"Emails leave, and {told} a look.", tone="late", remarks=remarks)
    return Judgement(line="All is well.", tone="good", remarks=())


def _grave(health: Health) -> Iterator[Remark]:
    for text in health.problems:
        if not _is_pause(text):
            yield Remark(text=text, is_grave=True)
    for server in health.alerts:
        yield Remark(text=server_line(server), is_grave=True)


def _small(health: Health, pauses: Sequence[Pause], switched: Sequence[str]) -> Iterator[Remark]:
    for one in pauses:
        what = "everything is" if one.scope == "all" else f"the priority {one.scope} is"
        text = f"{what} paused: nothing of it is sent until somebody resumes it"
        yield Remark(
            text=text, is_grave=not health.healthy, page="pauses_index", label="See the pauses"
        )
    for text in switched:
        if text not in health.problems:
            yield Remark(text=text, is_grave=False)
    for server in health.servers:
        if server.since and server.configured and server not in health.alerts:
            yield Remark(text=server_line(server), is_grave=False)
    for text in health.warnings:
        page, label = ("held_index", "See what is held") if text == HELD else ("", "")
        yield Remark(text=text, is_grave=False, page=page, label=label)


def _linked(remark: Remark, health: Health, of_fleet: Collection[str]) -> Remark:
    """Return the remark with a link to the page where a person sees more of it, or can mend it."""
    if _wordy(remark.text) in of_fleet:
        return replace(remark, page="workers_index", label="See the workers")
    for email_id in health.crashing:
        if remark.text.startswith(f"email {email_id} "):
            values = {"email_id": email_id}
            return replace(remark, page="one_show", values=values, label="See the message")
    return remark


def _wordy(text: str) -> str:
    """Return a text without its numbers: a second may have passed between two looks."""
    return re.sub(r"\d+", "", text)


def _is_pause(text: str) -> bool:
    """Return whether a problem is a pause: those are told with a link to their page."""
    return text.startswith("paused: ")
