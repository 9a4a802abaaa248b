"""The pauses: what is stopped, and since when."""

from __future__ import annotations

from flask import redirect, request
from flask.typing import ResponseReturnValue

from ...domain.priority import Priority
from ...flask_ext.management.management import Management
from ...store.control.pause import EVERYTHING
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
    return render("controls/pauses.html", paused=paused, scopes=scopes, about=_ABOUT)


def pause() -> ResponseReturnValue:
    """Stop everything, or a priority."""
    Management().pause(_scope(), by=visitor().who)
    return redirect(here("pauses_index"), 303)


def resume() -> ResponseReturnValue:
    """Let it go on."""
    Management().resume(_scope(), by=visitor().who)
    return redirect(here("pauses_index"), 303)


def _scope() -> str | None:
    given = request.form.get("scope", "")
    return None if given == EVERYTHING else given
