"""Password reset: urgent email that expires after fifteen minutes and then is never sent.

One address gets one email in each time slot, however often somebody asks and with however many
browsers: the reset's id is made of both.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

from flask import Blueprint, current_app, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from itsdangerous import BadSignature, URLSafeSerializer
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from outbox import InvalidMessage, Priority

from .. import messages
from ..extensions import db, outbox
from ..limits import RESETS_OF_A_CLIENT, limiter
from ..models import PasswordReset
from . import forms

bp = Blueprint("password_reset", __name__, url_prefix="/password-reset")

LIFETIME = timedelta(minutes=15)
SLOT = timedelta(minutes=5)


@bp.get("")
def ask() -> ResponseReturnValue:
    """Show the form that asks for the address."""
    return _form({})


@bp.post("")
@limiter.limit(RESETS_OF_A_CLIENT)
def send() -> ResponseReturnValue:
    """Send the link. The answer is the same whether or not the address has an account."""
    try:
        address = forms.line(
            request.form, "email", "Your e-mail address", most=forms.LONGEST_ADDRESS
        )
        now = datetime.now(UTC)
        reset_id = in_slot(address, now)
        if _find(reset_id) is None:
            _start(reset_id, address, now)
    except forms.FormError as error:
        return _form(request.form, problem=str(error)), 400
    except InvalidMessage as error:
        db.session.rollback()
        if error.field != "recipients":  # it is the shop's own fault
            raise
        return _form(
            request.form,
            problem=f"We cannot write to that address. The outbox says: “{error.rule}”.",
        ), 400
    except IntegrityError:  # another request in this slot has just written the email
        db.session.rollback()
    return redirect(url_for("password_reset.sent"), code=303)


def in_slot(address: str, now: datetime) -> str:
    """Return the id of the only reset that this address gets in the time slot of `now`."""
    slot = int(now.timestamp() // SLOT.total_seconds())
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"mailto:{address.lower()}?slot={slot}"))


def _start(reset_id: str, address: str, now: datetime) -> None:
    db.session.add(PasswordReset(request=reset_id, email=address, requested_at=now))
    db.session.flush()
    path = url_for("password_reset.choose", token=_signer().dumps(reset_id))
    link = current_app.config["PUBLIC_URL"] + path
    outbox.enqueue(
        messages.new_password(address, link, int(LIFETIME.total_seconds()) // 60),
        priority=Priority.URGENT,
        expires_at=now + LIFETIME,
        key=f"password-reset:{reset_id}",
        tag="password-reset",
        redact="when sent",  # nobody finds a link in the table that still works
    )
    db.session.commit()


@bp.get("/sent")
def sent() -> ResponseReturnValue:
    """Say that the email is on its way."""
    return render_template("password_reset/sent.html")


@bp.get("/<token>")
def choose(token: str) -> ResponseReturnValue:
    """Show the page behind the email's link. The demo stops here: it has no accounts."""
    try:
        found = _find(_signer().loads(token))
    except BadSignature:
        found = None
    if found is None or _age(found) > LIFETIME:
        return render_template("password_reset/link.html", valid=False), 410
    return render_template("password_reset/link.html", valid=True)


def _find(reset_id: str) -> PasswordReset | None:
    return db.session.scalar(select(PasswordReset).where(PasswordReset.request == reset_id))


def _age(reset: PasswordReset) -> timedelta:
    return datetime.now(UTC) - reset.requested_at.replace(tzinfo=UTC)


def _signer() -> URLSafeSerializer:
    return URLSafeSerializer(current_app.config["SECRET_KEY"], salt="password-reset")


def _form(form: object, *, problem: str = "") -> str:
    return render_template("password_reset/ask.html", form=form, problem=problem)
