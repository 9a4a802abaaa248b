"""The newsletters: the newest tags, how far each has come, what failed; the rest is stopped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from flask import abort, redirect, request
from flask.typing import ResponseReturnValue

from ...domain.config.enqueue_options import MAX_ID, MAX_TAG
from ...domain.counted import counted
from ...domain.delivery.status import FINISHED, NEEDS_PERSON, Status
from ...domain.jobs.order import Action
from ...flask_ext.app.state import state_of
from ...flask_ext.jobs.starting import dry_run
from ...flask_ext.management.corrections import Part
from ...flask_ext.management.newsletters import reports
from ...flask_ext.management.newsletters.stop import stop_act, stop_part
from ...store.search.tag_progress import TagProgress
from ..site import so_far
from ..site.errors import Halfway
from ..site.formats import bounded
from ..site.render import here, render
from ..site.site import Site, visitor
from ..site.so_far import SoFar

PAGE = 10


def add_to(site: Site) -> None:
    """Add the list, the page of one tag, and its act."""
    site.page("/newsletters", index)
    site.page("/newsletters/tag", show)
    site.action("/newsletters/stop", stop, _at_break)


def index() -> ResponseReturnValue:
    """List the newest tags of bulk email."""
    before = request.args.get("before", type=int)
    before = before if before and 0 < before <= MAX_ID else None
    found = reports.newsletters(state_of().runtime, before=before, limit=PAGE)
    lines = [Line.of(one) for one in found.newsletters]
    return render("messages/newsletters.html", lines=lines, next=found.next, before=before)


def show() -> ResponseReturnValue:
    """Show one tag."""
    tag = request.args.get("tag", "").strip()
    return _page(tag, so_far.told(_act(tag)))


def stop() -> ResponseReturnValue:
    """Withdraw the next emails of a tag that wait; the page sends its form again while some may.

    The page that goes on is the answer to a form. No link leads to it, so no other site can make a
    browser go on.
    """
    tag = request.form.get("tag", "")
    before = so_far.posted(_act(tag))
    done = before.plus(_stop(tag, before.after)).with_others(stop_act(tag, visitor().who))
    if done.after is None:
        told = {so_far.FIELD: done.sign(_act(tag))}
        return redirect(here("newsletters_show", tag=tag, **told), 303)
    return _page(tag, done)


def _act(tag: str) -> str:
    return f"stop {tag}"


def _stop(tag: str, after: int | None) -> Part:
    """Stop a bounded part of the rest. A job in the background may take this place."""
    return stop_part(state_of().writer_runtime, tag, after, by=visitor().who)


def _at_break(part: Part | None) -> Halfway | None:
    """Tell how far a stop has come before an error, and how many still wait."""
    tag = request.form.get("tag", "")
    done = so_far.at_break(_act(tag), part)
    if done is None:
        return so_far.elsewhere(_act(tag), here("newsletters_show", tag=tag))
    text = f"{counted(done.changed, 'message is', 'messages are')} cancelled so far"
    if done.otherwise:
        text += f", {done.otherwise} ended as unknown or sent"
    text += so_far.counted_if_possible(lambda: _waiting(tag))
    fields = {"tag": tag, so_far.FIELD: done.sign(_act(tag))}
    return Halfway(text=f"{text}.", action=here("newsletters_stop"), fields=fields)


def _waiting(tag: str) -> str:
    found = dry_run(state_of().writer_runtime, Action.CANCEL, {"tag": tag})
    verb = "waits" if found.emails == 1 and not found.more else "wait"
    return f", and {bounded(found.emails, found.more)} still {verb}"


def _page(tag: str, done: SoFar | None) -> ResponseReturnValue:
    found = reports.newsletter(state_of().runtime, tag) if 0 < len(tag) <= MAX_TAG else None
    line = None if found is None else Line.of(found)
    if line is None and done is not None and done.after is not None:
        abort(404)
    signed, has_rest = "" if done is None else done.sign(_act(tag)), _has_rest(line)
    page = render(
        "messages/newsletter.html",
        tag=tag,
        line=line,
        so_far=done,
        signed=signed,
        has_rest=has_rest,
        seen=so_far.seen() if has_rest else None,
    )
    return page, 200 if line else 404


def _has_rest(line: Line | None) -> bool:
    """Whether some of it may wait."""
    return line is not None and (line.progress.waiting > 0 or not line.progress.is_counted)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A number of a newsletter, as it is printed."""

    label: str
    text: str
    is_some: bool
    status: Status | None = None  # of the search that lists these messages
    tone: str = ""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A newsletter, as it is printed."""

    progress: TagProgress
    figures: tuple[Figure, ...]

    @classmethod
    def of(cls, progress: TagProgress) -> Line:
        """Return the line of a newsletter."""
        return cls(progress=progress, figures=tuple(_figures(progress)))

    @property
    def total(self) -> str:
        """How many messages it has."""
        return f"{self.progress.emails:,}" + ("" if self.progress.is_counted else "+")

    @property
    def ended(self) -> int:
        """The percentage of its messages that have ended, rounded down."""
        statuses = self.progress.statuses
        ended = sum(statuses.get(status, 0) for status in FINISHED | NEEDS_PERSON)
        return int(100 * self.progress.share(ended))


def _figures(one: TagProgress) -> Iterator[Figure]:
    statuses = one.statuses
    yield _figure(one, "sent", statuses.get(Status.SENT, 0), Status.SENT)
    yield _figure(one, "waiting", one.waiting)
    for status, tone in ((Status.FAILED, "bad"), (Status.UNKNOWN, "late")):
        yield _problem(one, status, tone)
    for status in (Status.CANCELLED, Status.EXPIRED, Status.SUPPRESSED):
        if emails := statuses.get(status, 0):
            yield _figure(one, status, emails, status)


def _problem(one: TagProgress, status: Status, tone: str) -> Figure:
    """Return how many failed, or are unknown; where not all of these are counted, their share."""
    emails, sampled = one.problems.get(status, 0), one.statuses.get(status, 0)
    if one.more_problems and (sampled or not emails):
        return replace(_figure(one, status, sampled, status), tone=tone)
    text = bounded(emails, one.more_problems)
    return Figure(label=status, text=text, is_some=emails > 0, status=status, tone=tone)


def _figure(one: TagProgress, label: str, emails: int, status: Status | None = None) -> Figure:
    """Return a number; of a newsletter that is not counted, the percentage of a sample."""
    text = f"{emails:,}" if one.is_counted else f"{100 * one.share(emails):.0f} %"
    return Figure(label=label, text=text, is_some=emails > 0, status=status)
