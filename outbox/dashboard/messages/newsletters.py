"""The newsletters: the newest tags, how far each has come, what failed; the rest is stopped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from flask import abort, redirect, request
from flask.typing import ResponseReturnValue

from ...domain.config.enqueue_options import MAX_ID, MAX_TAG
from ...domain.delivery.status import FINISHED, NEEDS_PERSON, Status
from ...flask_ext.app.state import state_of
from ...flask_ext.management.corrections import Part
from ...flask_ext.management.newsletters import reports
from ...flask_ext.management.newsletters.stop import stop_part
from ...store.search.tag_progress import TagProgress
from ..site.formats import bounded
from ..site.render import here, render
from ..site.site import Site, visitor

PAGE = 10


def add_to(site: Site) -> None:
    """Add the list, the page of one tag, and its act."""
    site.page("/newsletters", index)
    site.page("/newsletters/tag", show)
    site.action("/newsletters/stop", stop)


def index() -> ResponseReturnValue:
    """List the newest tags of bulk email."""
    before = request.args.get("before", type=int)
    before = before if before and 0 < before <= MAX_ID else None
    found = reports.newsletters(state_of().runtime, before=before, limit=PAGE)
    lines = [Line.of(one) for one in found.newsletters]
    return render("messages/newsletters.html", lines=lines, next=found.next, before=before)


def show() -> ResponseReturnValue:
    """Show one tag."""
    arguments = request.args
    return _page(
        arguments.get("tag", "").strip(),
        stopped=arguments.get("stopped", type=int),
        otherwise=arguments.get("otherwise", 0, type=int),
        locked=arguments.get("locked", 0, type=int),
    )


def stop() -> ResponseReturnValue:
    """Withdraw the next emails of a tag that wait; the page sends its form again while some may.

    The page that goes on is the answer to a form. No link leads to it, so no other site can make a
    browser go on.
    """
    form = request.form
    tag, done = form.get("tag", ""), _stop(form.get("tag", ""), form.get("after", type=int))
    so_far = {
        "stopped": form.get("stopped", 0, type=int) + done.changed,
        "otherwise": form.get("otherwise", 0, type=int) + done.otherwise,
        "locked": form.get("locked", 0, type=int) + done.locked,
    }
    if done.next is None:
        return redirect(here("newsletters_show", tag=tag, **so_far), 303)
    return _page(tag, **so_far, goes_on=done.next)


def _stop(tag: str, after: int | None) -> Part:
    """Stop a bounded part of the rest. A job in the background may take this place."""
    return stop_part(state_of().writer_runtime, tag, after, by=visitor().who)


def _page(
    tag: str, *, stopped: int | None, otherwise: int, locked: int, goes_on: int | None = None
) -> ResponseReturnValue:
    found = reports.newsletter(state_of().runtime, tag) if 0 < len(tag) <= MAX_TAG else None
    line = None if found is None else Line.of(found)
    if line is None and goes_on is not None:
        abort(404)
    page = render(
        "messages/newsletter.html",
        tag=tag,
        line=line,
        stopped=stopped,
        otherwise=otherwise,
        locked=locked,
        goes_on=goes_on,
    )
    return page, 200 if line else 404


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
