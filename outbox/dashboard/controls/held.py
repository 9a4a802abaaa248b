"""What is held since a restore: by tag and priority, and the first messages; some are released."""

from __future__ import annotations

from flask import redirect, request
from flask.typing import ResponseReturnValue

from ...domain.priority import Priority
from ...flask_ext.app.state import state_of
from ...flask_ext.management.corrections import Part
from ...flask_ext.restore import pages
from ..site.render import here, render
from ..site.site import Site, visitor

GROUPS = 30
FIRST = 20


def add_to(site: Site) -> None:
    """Add the page and its act."""
    site.page("/held", index)
    site.action("/held/release", release)


def index() -> ResponseReturnValue:
    """Show what is held."""
    arguments = request.args
    return _page(
        released=arguments.get("released", type=int), locked=arguments.get("locked", 0, type=int)
    )


def release() -> ResponseReturnValue:
    """Release a part of what fulfils the form; the page sends its form again while there is more.

    As with a newsletter that is stopped, the page that goes on is the answer to a form.
    """
    form, done = request.form, _release(request.form.get("after", type=int))
    so_far = {
        "released": form.get("released", 0, type=int) + done.changed,
        "locked": form.get("locked", 0, type=int) + done.locked,
    }
    if done.next is None:
        return redirect(here("held_index", **so_far), 303)
    return _page(**so_far, goes_on=done.next)


def _release(after: int | None) -> Part:
    form = request.form
    return pages.release_part(
        state_of().writer_runtime,
        tag=form.get("tag", "").strip() or None,
        priority=form.get("priority") or None,
        scheduled="scheduled" in form,
        everything="everything" in form,
        after=after,
        by=visitor().who,
    )


def _page(*, released: int | None, locked: int, goes_on: int | None = None) -> ResponseReturnValue:
    return render(
        "controls/held.html",
        held=pages.shown(state_of().runtime, groups=GROUPS, emails=FIRST),
        priorities=[priority.name.lower() for priority in Priority],
        released=released,
        locked=locked,
        goes_on=goes_on,
        wanted=request.form,
    )
