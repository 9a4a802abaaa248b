"""The newsletter: one content for thousands of readers, in one transaction, with live progress.

Only staff may post one. Its page shows what else is for staff: names of hosts, and what fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from flask import Blueprint, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from outbox import InvalidMessage

from .. import messages
from ..extensions import db, outbox
from ..limits import NEWSLETTERS_OF_A_CLIENT, limiter
from ..models import Newsletter
from ..staff import only_staff
from . import forms
from .newsletter_progress import report

bp = Blueprint("newsletter", __name__, url_prefix="/newsletter")
bp.before_request(only_staff)

MOST_READERS = 20_000


@bp.get("")
def compose() -> ResponseReturnValue:
    """Show the form for an issue, and the issues that were posted."""
    return _form({})


@bp.post("")
@limiter.limit(NEWSLETTERS_OF_A_CLIENT)
def post() -> ResponseReturnValue:
    """Write the issue and all its emails in one commit."""
    try:
        newsletter = _read(request.form)
        posted = _find(newsletter.draft)
        if posted is None:
            posted = _post(newsletter)
    except forms.FormError as error:
        return _form(request.form, problem=str(error)), 400
    except InvalidMessage as error:
        db.session.rollback()
        return _form(request.form, problem=f"This cannot be sent. The outbox says: “{error}”."), 400
    return redirect(url_for("newsletter.progress", newsletter_id=posted.id), code=303)


def _read(form: Mapping[str, str]) -> Newsletter:
    return Newsletter(
        draft=forms.form_id(form, "draft"),
        subject=forms.line(form, "subject", "The subject", most=200),
        text=forms.paragraphs(form, "text", "The text", most=20_000),
        readers=forms.number(form, "readers", "The number of readers", least=1, most=MOST_READERS),
    )


def _post(newsletter: Newsletter) -> Newsletter:
    db.session.add(newsletter)
    try:
        db.session.flush()
    except IntegrityError:  # the same form was sent twice, and the other request was faster
        db.session.rollback()
        rival = _find(newsletter.draft)
        if rival is None:
            raise
        return rival
    outbox.enqueue_many(
        messages.issue(newsletter), recipients=readers(newsletter.readers), tag=newsletter.tag
    )
    db.session.commit()
    return newsletter


def readers(count: int) -> Iterator[str]:
    """Make up the demo's subscribers."""
    return (f"reader-{number:05}@example.com" for number in range(1, count + 1))


@bp.get("/<int(max=2147483647):newsletter_id>")
def progress(newsletter_id: int) -> ResponseReturnValue:
    """Show how far an issue has come; the page's script keeps it up to date."""
    newsletter = db.get_or_404(Newsletter, newsletter_id)
    return render_template(
        "newsletter/progress.html", newsletter=newsletter, report=report(newsletter)
    )


@bp.get("/<int(max=2147483647):newsletter_id>/progress")
def progress_numbers(newsletter_id: int) -> ResponseReturnValue:
    """Return the numbers for the page's script, and the list of batches as HTML."""
    found = report(db.get_or_404(Newsletter, newsletter_id))
    numbers = {name: getattr(found, name) for name in NUMBERS}
    return numbers | {"html": render_template("newsletter/batches.html", report=found)}


NUMBERS = (
    "total", "finished", "waiting", "underway", "sent", "in_doubt", "done", "headline", "detail",
)  # fmt: skip


def _find(draft: str) -> Newsletter | None:
    return db.session.scalar(select(Newsletter).where(Newsletter.draft == draft))


def _form(form: Mapping[str, str], *, problem: str = "") -> str:
    newest = select(Newsletter).order_by(Newsletter.id.desc()).limit(10)
    return render_template(
        "newsletter/compose.html",
        form=form,
        draft=forms.new_id(),
        most=MOST_READERS,
        posted=db.session.scalars(newest).all(),
        problem=problem,
    )
