"""The list of messages, newest first, and the form that selects some of them."""

from __future__ import annotations

from flask import redirect, request
from flask.typing import ResponseReturnValue

from ...domain.delivery.status import Status
from ...domain.errors import InvalidMessage
from ...domain.search.filters import UNINDEXED
from ...flask_ext.management.management import Management
from ...store.report_records import EmailPage
from ..site.render import here, render
from ..site.site import Site, visitor
from .offers import Offer, offers_for
from .search_form import SearchForm

PAGE = 50
_EMPTY = EmailPage(emails=(), next=None)


def add_to(site: Site) -> None:
    """Add the list."""
    site.page("/messages", index)


def index() -> ResponseReturnValue:
    """List a page of the messages that fit the form, or lead to the one whose id was given."""
    form = SearchForm.read(request.args)
    if form.number is not None and form.is_met_by(Management().get(form.number)):
        return redirect(here("one_show", email_id=form.number))
    problem, found, offers, unasked = "", _EMPTY, list[Offer](), list[InvalidMessage]()
    try:
        found, filters, unasked = _found(form)
        offers = offers_for(filters) if found.emails and visitor().may_act else []
    except InvalidMessage as error:
        problem = str(error)
    page = render(
        "messages/index.html",
        found=found,
        form=form,
        problem=problem,
        unasked=unasked,
        statuses=list(Status),
        offers=offers,
    )
    return page, 400 if problem else 200


def _found(form: SearchForm) -> tuple[EmailPage, dict[str, str], list[InvalidMessage]]:
    """Return the page of the first guess that fits something, and its filters as texts.

    A guess that is refused fits not. If nothing fits, the refusals are returned of what may well be
    there, and is in no index.
    """
    after, refusals, guesses = form.fields["after"] or None, list[InvalidMessage](), form.filters()
    for filters in guesses:
        try:
            found = Management().list(**filters, after=after, limit=PAGE)
        except InvalidMessage as error:
            refusals.append(error)
            continue
        if found.emails or found.next:
            return found, form.texts(filters), []
    if len(refusals) == len(guesses):
        raise refusals[0]
    return _EMPTY, {}, [one for one in refusals if one.rule.startswith(UNINDEXED)]
