"""`/inbox`, in the demo only: the emails that the demo's SMTP catcher received."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from email import message_from_bytes
from email.errors import MessageError
from email.message import EmailMessage
from email.policy import default
from pathlib import Path

from flask import Blueprint, Response, abort, current_app, render_template, request
from flask.typing import ResponseReturnValue

from ..maildir import Maildir, arrival
from .security import MAIL_POLICY

bp = Blueprint("inbox", __name__, url_prefix="/inbox")

PAGE = 25

_UNREADABLE = (MessageError, LookupError, ValueError, TypeError, AttributeError, RecursionError)
"""What CPython's strict parser raises for emails from strangers: for unknown charsets or encodings,
and for comments nested a thousand deep."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One email's line in the list."""

    name: str
    arrived: datetime
    sender: str
    recipient: str
    subject: str


@bp.get("")
def index() -> ResponseReturnValue:
    """List the emails, newest first."""
    maildir = _maildir()
    names = maildir.names()
    pages = max(1, -(-len(names) // PAGE))
    page = min(max(request.args.get("page", 1, type=int), 1), pages)
    entries = [
        _entry(name, raw)
        for name in names[(page - 1) * PAGE : page * PAGE]
        if (raw := maildir.read(name)) is not None
    ]
    return render_template(
        "inbox/index.html", entries=entries, total=len(names), page=page, pages=pages
    )


@bp.get("/<name>")
def email(name: str) -> ResponseReturnValue:
    """Show one email: as HTML, as text, or as it was received."""
    raw = _raw(name)
    message = _parse(raw)
    html, text = _part(message, "html"), _part(message, "plain")
    views = {"html": html is not None, "text": text is not None, "source": True}
    view = request.args.get("view", "")
    if not views.get(view):
        view = next(candidate for candidate, there in views.items() if there)
    return render_template(
        "inbox/email.html",
        entry=_entry(name, raw),
        message_id=_header(message, "Message-ID"),
        views=[candidate for candidate, there in views.items() if there],
        view=view,
        text=text if view == "text" else raw.decode("utf-8", "replace"),
    )


@bp.get("/<name>/html")
def html_part(name: str) -> ResponseReturnValue:
    """Serve the HTML part for the sandboxed frame."""
    html = _part(_parse(_raw(name)), "html")
    if html is None:
        abort(404)
    response = Response(html, mimetype="text/html")
    response.headers["Content-Security-Policy"] = MAIL_POLICY
    return response


def _maildir() -> Maildir:
    return Maildir(Path(current_app.config["DEMO_INBOX"]))


def _raw(name: str) -> bytes:
    raw = _maildir().read(name)
    if raw is None:
        abort(404)
    return raw


def _parse(raw: bytes) -> EmailMessage:
    try:
        return message_from_bytes(raw, policy=default)
    except _UNREADABLE:  # only its source can be shown
        return EmailMessage()


def _entry(name: str, raw: bytes) -> Entry:
    head, _, _ = raw.partition(b"\r\n\r\n")
    message = _parse(head + b"\r\n\r\n")
    return Entry(
        name=name,
        arrived=arrival(name),
        sender=_header(message, "From"),
        recipient=_header(message, "Delivered-To"),
        subject=_header(message, "Subject") or "(no subject)",
    )


def _header(message: EmailMessage, name: str) -> str:
    try:
        return str(message[name] or "")
    except _UNREADABLE:
        return ""


def _part(message: EmailMessage, kind: str) -> str | None:
    try:
        part = message.get_body((kind,))
        return None if part is None else str(part.get_content())
    except _UNREADABLE:
        return None
