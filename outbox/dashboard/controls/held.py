"""What is held since a restore: by tag and priority, and the first messages; some are released."""

from __future__ import annotations

from typing import Any

from flask import redirect, request
from flask.typing import ResponseReturnValue

from ...domain.counted import counted
from ...domain.priority import Priority
from ...flask_ext.app.state import state_of
from ...flask_ext.management.audit import Act
from ...flask_ext.management.corrections import Part
from ...flask_ext.restore import pages
from ..site import so_far
from ..site.errors import Halfway
from ..site.formats import bounded
from ..site.render import here, render
from ..site.site import Site, visitor
from ..site.so_far import SoFar

GROUPS = 30
FIRST = 20
_ACT = "release"
_FIELDS = ("tag", "priority", "scheduled", "everything")


def add_to(site: Site) -> None:
    """Add the page and its act."""
    site.page("/held", index)
    site.action("/held/release", release, _at_break)


def index() -> ResponseReturnValue:
    """Show what is held."""
    return _page(so_far.told(_ACT))


def release() -> ResponseReturnValue:
    """Release a part of what fulfils the form; the page sends its form again while there is more.

    As with a newsletter that is stopped, the page that goes on is the answer to a form.
    """
    before = so_far.posted(_ACT)
    done = before.plus(_release(before.after)).with_others(_released())
    if done.after is None:
        return redirect(here("held_index", **{so_far.FIELD: done.sign(_ACT)}), 303)
    return _page(done)


def _at_break(part: Part | None) -> Halfway | None:
    """Tell how far a release has come before an error, and how many are still held."""
    done = so_far.at_break(_ACT, part)
    if done is None:
        return so_far.elsewhere(_ACT, here("held_index"))
    text = f"{counted(done.changed, 'message is', 'messages are')} released so far"
    text += so_far.counted_if_possible(_still_held)
    fields = {name: request.form[name] for name in _FIELDS if name in request.form}
    fields[so_far.FIELD] = done.sign(_ACT)
    return Halfway(text=f"{text}.", action=here("held_release"), fields=fields)


def _still_held() -> str:
    found = pages.shown(state_of().writer_runtime, groups=1, emails=1)
    verb = "is" if found.emails == 1 and not found.more else "are"
    return f", and {bounded(found.emails, found.more)} {verb} still held"


def _release(after: int | None) -> Part:
    return pages.release_part(
        state_of().writer_runtime, **_wanted(), everything="everything" in request.form, after=after
    )


def _released() -> Act | None:
    return pages.release_act(**_wanted())


def _wanted() -> dict[str, Any]:
    """Return what the form asks for, and who does."""
    form = request.form
    return {
        "tag": form.get("tag", "").strip() or None,
        "priority": form.get("priority") or None,
        "scheduled": "scheduled" in form,
        "by": visitor().who,
    }


def _page(done: SoFar | None) -> ResponseReturnValue:
    held = pages.shown(state_of().runtime, groups=GROUPS, emails=FIRST)
    return render(
        "controls/held.html",
        held=held,
        seen=so_far.seen() if held.emails else None,
        priorities=[priority.name.lower() for priority in Priority],
        so_far=done,
        signed="" if done is None else done.sign(_ACT),
        wanted=request.form,
    )
