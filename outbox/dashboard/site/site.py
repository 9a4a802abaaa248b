"""The blueprint: who is let in, what each answer's headers say, and how errors look."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from http import HTTPMethod
from typing import Any, TypeAlias

from flask import Blueprint, Response, abort, current_app, g, redirect, request
from flask.blueprints import BlueprintSetupState
from flask.typing import ResponseReturnValue
from werkzeug.exceptions import HTTPException
from werkzeug.routing import BaseConverter, Rule
from werkzeug.wsgi import LimitedStream

from ...domain.config.enqueue_options import MAX_ID
from ...domain.errors import ConfigurationError, InvalidMessage, RowsLocked
from ...flask_ext.app.state import state_of
from ...flask_ext.management.checks import long_waits
from ...flask_ext.management.corrections import BrokenOff, Part
from ...store.bounded_waits import bounded_reads
from ...store.connection.error_codes import is_lock_timeout, without_rows
from ..access import csrf
from ..access.role import Access, Role, Visitor, visitor_of
from ..access.signing import Forged
from .errors import Halfway
from .led import NOT_DONE, REST_NOT_DONE, lead_back
from .render import error_page, here

_log = logging.getLogger("outbox")

NAME = "outbox_dashboard"
"""Of the blueprint."""
MOST_POSTED = 2 * 1024 * 1024
"""The most octets that a form may have; a list of addresses is the largest."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-DNS-Prefetch-Control": "off",
    "X-Frame-Options": "DENY",
}

_MISSING = "site_missing"
_DIGITS = len(str(MAX_ID))

View: TypeAlias = Callable[..., ResponseReturnValue]
AtBreak: TypeAlias = Callable[[Part | None], Halfway | None]
"""Tells how far an act that is done in parts had come before an error, which may end a part."""


def _nothing(_: Part | None) -> None:
    """Say that an act is not done in parts."""


class Site:
    """The pages of one app. Each is added with the role that it needs."""

    def __init__(self, access: Access, prefix: str) -> None:
        self.prefix = prefix
        self.blueprint = Blueprint(
            NAME, __package__ or "", url_prefix=prefix, static_folder="../static"
        )
        self._access = access
        self.blueprint.before_request(self._admit)
        self.blueprint.after_request(self._protect)
        self.blueprint.record_once(_have_the_last_word)
        self._answer_all()

    def _answer_all(self) -> None:
        """Have the guard asked at each address, with each method.

        Flask alone would tell a stranger that there is something: it leads to the address with a
        slash, and answers 405 to another method.
        """
        self._add("", _home, Role.VIEW, HTTPMethod.GET)
        others = set(HTTPMethod) - {HTTPMethod.GET, HTTPMethod.HEAD}
        self._add("/", _missing, Role.VIEW, *others, endpoint=_MISSING)
        self.blueprint.record_once(_answer_the_rest)

    def page(self, rule: str, view: View, role: Role = Role.VIEW) -> None:
        """Add a page that changes nothing."""
        self._add(rule, view, role, HTTPMethod.GET)

    def action(self, rule: str, view: View, at_break: AtBreak = _nothing) -> None:
        """Add what changes something. Its form must have been sent from a page of the visitor.

        If it is done in parts, `at_break` tells a page of an error how far it has come.
        """

        @wraps(view)
        def checked(**values: Any) -> ResponseReturnValue:
            csrf.refuse_forged(visitor())
            return view(**values)

        self._add(rule, checked, Role.ACT, HTTPMethod.POST, at_break=at_break)
        endpoint = f"{self._endpoint(view)}_again"
        again = _not_done if at_break is _nothing else _rest_not_done
        self._add(rule, again, Role.VIEW, HTTPMethod.GET, endpoint=endpoint)

    def _endpoint(self, view: View) -> str:
        return f"{view.__module__.rpartition('.')[2]}_{view.__name__}"

    def _add(
        self,
        rule: str,
        view: View,
        role: Role,
        *methods: HTTPMethod,
        endpoint: str = "",
        at_break: AtBreak = _nothing,
    ) -> None:
        @wraps(view)
        def answer(**values: Any) -> ResponseReturnValue:
            try:
                if visitor().role < role:
                    abort(403)
                with bounded_reads(state_of().runtime.database):
                    return view(**values)
            except Exception as error:  # noqa: BLE001  (each becomes a page, and none is lost)
                return _failed(error, at_break)

        name = endpoint or self._endpoint(view)
        self.blueprint.add_url_rule(rule, name, answer, methods=methods)

    def _admit(self) -> ResponseReturnValue | None:
        """Let the visitor in, or answer as if nothing were here."""
        found = visitor_of(self._access)
        if found is None:
            abort(404)
        g.outbox_visitor = found
        if (request.content_length or 0) > MOST_POSTED:
            return error_page(413)
        # A request in chunks tells no length. To read more of it than this is an error 413.
        given = request.environ["wsgi.input"]
        request.environ["wsgi.input"] = LimitedStream(given, MOST_POSTED, is_max=True)
        return None

    def _protect(self, response: Response) -> Response:
        if "outbox_visitor" not in g:  # these headers, too, would tell that something is here
            return response
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        if request.endpoint == f"{NAME}.static":
            response.headers["Cache-Control"] = "private, no-cache"
        g.outbox_headers = {name: response.headers[name] for name in _HEADERS}
        csrf.keep(response, request.script_root + self.prefix)
        return response


class _Rest(BaseConverter):
    """Whatever stands behind the prefix, also two slashes: Werkzeug would merge these first."""

    part_isolating = False
    regex = ".*?"
    weight = 300  # behind each page's own rule


class _Number(BaseConverter):
    """A number in an address. One that no row can have is the largest, and no row has that.

    With a `max` of Werkzeug's own converter no rule would match, and the answer would be the app's.
    """

    regex = "[0-9]+"

    def to_python(self, value: str) -> int:
        digits = value.lstrip("0") or "0"
        return min(int(digits), MAX_ID) if len(digits) <= _DIGITS else MAX_ID


def _answer_the_rest(state: BlueprintSetupState) -> None:
    state.app.url_map.converters |= {"outbox_rest": _Rest, "outbox_number": _Number}
    for rest in ("", "/<outbox_rest:rest>"):
        # Without methods it takes any, also one that nobody has heard of.
        state.app.url_map.add(Rule(f"{state.url_prefix}{rest}", endpoint=f"{NAME}.{_MISSING}"))


def _have_the_last_word(state: BlueprintSetupState) -> None:
    """Run after each `after_request` of the app: its own policy may let a shown message run."""
    state.app.after_request_funcs.setdefault(None, []).insert(0, _seal)


def _seal(response: Response) -> Response:
    for name, value in g.get("outbox_headers", {}).items():
        response.headers[name] = value
    return response


def visitor() -> Visitor:
    """Return who asks; the guard has let this person in."""
    found: Visitor = g.outbox_visitor
    return found


def _not_done(**_: Any) -> ResponseReturnValue:
    """Lead to the page of a form. A login leads here if the session had ended before the form."""
    return lead_back(NOT_DONE)


def _rest_not_done() -> ResponseReturnValue:
    """Do so for an act in parts, which may have begun before that."""
    return lead_back(REST_NOT_DONE)


def _home() -> ResponseReturnValue:
    """Lead to the overview, whose address ends with a slash."""
    query = f"?{request.query_string.decode('latin-1')}" if request.query_string else ""
    return redirect(here("page_index") + query, 308)


def _missing(**_: Any) -> ResponseReturnValue:
    abort(404)


def _failed(error: Exception, at_break: AtBreak) -> ResponseReturnValue:
    """Return the page of an error. An unforeseen one is raised in debug mode, and else logged."""
    part, cause = None, error
    if isinstance(error, BrokenOff) and isinstance(error.__cause__, Exception):
        part, cause = error.part, error.__cause__
    if isinstance(cause, HTTPException) and cause.response is not None:
        return cause.get_response()  # such as a redirect to a login
    code, kind, told = _said_of(cause)
    return error_page(code, kind, told, at_break(part))


def _said_of(error: Exception) -> tuple[int, str, str]:
    """Return the HTTP code, the words and the details of an error's page."""
    if isinstance(error, HTTPException):
        return error.code or 500, "", ""
    if isinstance(error, Forged):
        return 400, "forged", ""
    if isinstance(error, InvalidMessage):
        return 400, "refused", str(error)
    if isinstance(error, RowsLocked):
        _log.info("outbox: a page of the dashboard met a locked row: %s", request.endpoint)
        return 503, "locked", _holders()
    if is_lock_timeout(error):
        _log.warning("outbox: a page of the dashboard met a locked table: %s", request.endpoint)
        return 503, "table-locked", _holders()
    if current_app.debug or current_app.testing:
        raise error
    _log.error("outbox: a page of the dashboard failed", exc_info=without_rows(error))
    if isinstance(error, ConfigurationError):  # its text names the remedy, and no value
        return 500, "set-up", str(error)
    # An act may take several transactions, and some of them may have committed.
    return 500, "act" if request.method == "POST" else "", ""


def _holders() -> str:
    return "; ".join(long_waits.holders(state_of().runtime.database))
