"""The pages at `/outbox/previews`: a list of the previews, and one page for each."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import cache
from typing import NoReturn

from flask import Blueprint, Flask, Response, abort, current_app, request, url_for
from jinja2 import Environment, PackageLoader, StrictUndefined

from ..app.state import state_of
from .make import make
from .registry import Preview, Previews
from .warnings import warnings_of

PREFIX = "/outbox/previews"
FRAME_POLICY = "default-src 'none'; img-src data:; font-src data:; style-src 'unsafe-inline'"
"""What an email may load within its frame: nothing that it does not bring along."""

_META = (
    f'<meta http-equiv="Content-Security-Policy" content="{FRAME_POLICY}">'
    '<meta http-equiv="x-dns-prefetch-control" content="off">'
)
"""Before the HTML in its frame. It needs no doctype there: no such frame is in quirks mode."""
_POLICY = (
    f"{FRAME_POLICY} 'self'; frame-src 'none'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-DNS-Prefetch-Control": "off",
    "X-Frame-Options": "DENY",
}
NAME = "outbox_previews"
"""Of the blueprint."""


def attach(app: Flask, previews: Previews, wanted: bool | None) -> None:
    """Add the pages where they are `wanted`; None: where the app is in debug mode."""

    def is_shown() -> bool:
        return app.debug if wanted is None else wanted

    if is_shown() and NAME not in app.blueprints:
        app.register_blueprint(_pages(previews, is_shown))


def _pages(previews: Previews, is_shown: Callable[[], bool]) -> Blueprint:
    pages = Blueprint(NAME, __name__, url_prefix=PREFIX, static_folder="static")

    @pages.before_request
    def refuse() -> None:
        if not is_shown():  # debug mode was switched off
            abort(404)

    @pages.after_request
    def protect(response: Response) -> Response:
        response.headers.update(_HEADERS)
        return response

    @pages.get("", strict_slashes=False)
    def index() -> str:
        return _page("index.html", previews, None)

    @pages.get("/<slug>")
    def show(slug: str) -> tuple[str, int]:
        preview = _found(previews, slug)
        try:
            email = make(preview, state_of())
            seen = {"email": email, "warnings": warnings_of(email, request.host), "policy": _META}
            return _page("email.html", previews, preview, **seen), 200
        except Exception as error:  # noqa: BLE001  (the user's function: the page shows its error)
            return _broken(previews, preview, error), 500

    @pages.get("/<slug>.eml")
    def download(slug: str) -> Response:
        preview = _found(previews, slug)
        octets = make(preview, state_of()).octets
        response = Response(octets, mimetype="message/rfc822")
        response.headers.set("Content-Disposition", "attachment", filename=f"{preview.slug}.eml")
        return response

    return pages


def _found(previews: Previews, slug: str) -> Preview:
    return previews.find(slug) or _nothing()


def _nothing() -> NoReturn:
    abort(404)


def _broken(previews: Previews, preview: Preview, error: Exception) -> str:
    """Return the page of an error. Its traceback is for developers only."""
    trace = "".join(traceback.format_exception(error)) if current_app.debug else ""
    told = "".join(traceback.format_exception_only(error)).strip()
    return _page("broken.html", previews, preview, told=told, trace=trace)


@cache
def _templates() -> Environment:
    """Return an environment of our own: the app's may have other delimiters, or no autoescape."""
    return Environment(
        loader=PackageLoader(__package__ or "", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _page(template: str, previews: Previews, current: Preview | None, **values: object) -> str:
    shared = {"previews": list(previews), "current": current, "url_for": url_for}
    return _templates().get_template(template).render(**shared, **values)
