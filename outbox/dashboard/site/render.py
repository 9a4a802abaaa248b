"""The templates, in an environment of our own."""

from __future__ import annotations

from functools import cache
from typing import Any

from flask import g, request, url_for
from jinja2 import Environment, PackageLoader, StrictUndefined

from ..access import csrf
from . import formats
from .errors import ERRORS, Halfway
from .led import NOT_DONE, REST_NOT_DONE, was_led

_PACKAGE = (__package__ or "").rpartition(".")[0]


@cache
def _templates() -> Environment:
    """Return the environment: the app's may have other delimiters, or no autoescape."""
    made = Environment(
        loader=PackageLoader(_PACKAGE, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= formats.FILTERS
    return made


def render(template: str, **values: Any) -> str:
    """Return a page."""
    visitor = g.outbox_visitor
    shared = {
        "here": here,
        "visitor": visitor,
        "not_done": was_led(NOT_DONE),
        "rest_not_done": was_led(REST_NOT_DONE),
        "endpoint": (request.endpoint or "").rpartition(".")[2],
        "csrf_field": csrf.field(),
        "csrf_token": lambda: csrf.token_of(visitor),
    }
    text = _templates().get_template(template).render(**shared, **values)
    return without_surrogates(text)


def without_surrogates(text: str) -> str:
    """Return the text with `?` for what UTF-8 cannot have: a stranger's header may decode to it."""
    return text.encode("utf-8", "replace").decode()


def here(endpoint: str, **values: Any) -> str:
    """Return the address of a page of the dashboard."""
    return url_for(f"outbox_dashboard.{endpoint}", **values)


def error_page(
    code: int, kind: str = "", told: str = "", halfway: Halfway | None = None
) -> tuple[str, int]:
    """Return the page of an error: what happened, and what to do."""
    kind = f"{kind}-halfway" if halfway and f"{kind}-halfway" in ERRORS else kind
    title, text = ERRORS.get(kind or code) or ERRORS[500]
    page = render("error.html", code=code, title=title, text=text, told=told, halfway=halfway)
    return page, code
