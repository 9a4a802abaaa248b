"""The pauses: what is stopped, and since when."""

from __future__ import annotations

from flask import redirect, request
from flask.typing import ResponseReturnValue

from ...domain.priority import Priority
from ...flask_ext.app.state import state_of
from ...flask_ext.management import controls
from ...flask_ext.management.management import Management
from ...store.control.pause import EVERYTHING
from ..site.done import just_done, since_of_form
from ..site.render import here, render
from ..site.site import Site, visitor

_ABOUT = {
    EVERYTHING: "Nothing at all is sent.",
    "urgent": "What a person waits for now, such as a new password.",
    "normal": "What follows an act, such as an order's confirmation.",
    "bulk": "Newsletters, and whatever else goes to many.",
}


def add_to(site: Site) -> None:
    """Add the page and its two acts."""
    site.page("/pauses", index)
    site.action("/pauses/pause", pause)
    site.action("/pauses/resume", resume)


def index() -> ResponseReturnValue:
    """Show each priority, and whether it is paused."""
    paused = {one.scope: one.paused_at for one in Management().paused()}
    scopes = [EVERYTHING, *(priority.name.lower() for priority in Priority)]
    scope = request.args.get("done", "")
    done = just_done(("pause", "resume"), scope=scope)
    return render(
        "controls/pauses.html", paused=paused, scopes=scopes, about=_ABOUT, done=done, scope=scope
    )


def pause() -> ResponseReturnValue:
    """Stop everything, or a priority."""
    Management().pause(_scope(), by=visitor().who)
    return _back()


def resume() -> ResponseReturnValue:
    """Let it go on, if nobody has paused it anew since the page was made."""
    controls.resume(state_of().writer_runtime, _scope(), visitor().who, since_of_form())
    return _back()


def _back() -> ResponseReturnValue:
    return redirect(here("pauses_index", done=request.form["scope"]), 303)


def _scope() -> str | None:
    given = request.form.get("scope", "")
    return None if given == EVERYTHING else given
