"""`/inbox`, in the demo only: the emails that the demo's SMTP catcher received."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from flask import (
    Blueprint,
    Response,
    abort,
    current_app,
    redirect,
    render_template,
    request,
    send_file,
    url_for,
)
from flask.typing import ResponseReturnValue

from ..maildir import Maildir
from .inbox_entry import attachments_of, body_of, entry_of, header_of, parse
from .inbox_search import by_message_id, search
from .security import MAIL_POLICY

bp = Blueprint("inbox", __name__, url_prefix="/inbox")

PAGE = 25


@bp.get("")
def index() -> ResponseReturnValue:
    """List the emails, newest first; with `q` only those whose headers have its words."""
    maildir, query = _maildir(), request.args.get("q", "").strip()
    names = maildir.names()
    found = [entry.name for entry in search(maildir, query)] if query else names
    pages = max(1, -(-len(found) // PAGE))
    page = min(max(request.args.get("page", 1, type=int), 1), pages)
    entries = [
        entry_of(name, raw)
        for name in found[(page - 1) * PAGE : page * PAGE]
        if (raw := maildir.read(name)) is not None
    ]
    return render_template(
        "inbox/index.html",
        entries=entries,
        total=len(names),
        found=len(found),
        query=query,
        page=page,
        pages=pages,
    )


@bp.get("/find")
def find() -> ResponseReturnValue:
    """Lead to the email with this Message-ID; where it has not arrived, to the list without it."""
    message_id = request.args.get("message_id", "")
    entry = by_message_id(_maildir(), message_id) if message_id else None
    if entry is None:
        return redirect(url_for("inbox.index", q=message_id or None))
    return redirect(url_for("inbox.email", name=entry.name))


@bp.get("/<name>")
def email(name: str) -> ResponseReturnValue:
    """Show one email: as HTML, as text, or as it was received."""
    raw = _raw(name)
    message = parse(raw)
    html, text = body_of(message, "html"), body_of(message, "plain")
    views = {"html": html is not None, "text": text is not None, "source": True}
    view = request.args.get("view", "")
    if not views.get(view):
        view = next(candidate for candidate, there in views.items() if there)
    return render_template(
        "inbox/email.html",
        entry=entry_of(name, raw),
        message_id=header_of(message, "Message-ID"),
        attachments=attachments_of(message),
        views=[candidate for candidate, there in views.items() if there],
        view=view,
        text=text if view == "text" else raw.decode("utf-8", "replace"),
    )


@bp.get("/<name>/html")
def html_part(name: str) -> ResponseReturnValue:
    """Serve the HTML part for the sandboxed frame."""
    html = body_of(parse(_raw(name)), "html")
    if html is None:
        abort(404)
    response = Response(html, mimetype="text/html")
    response.headers["Content-Security-Policy"] = MAIL_POLICY
    return response


@bp.get("/<name>/attachments/<int(max=9999):number>")
def attachment(name: str, number: int) -> ResponseReturnValue:
    """Serve an attachment as a file to keep: a browser never shows one as a page of ours."""
    attachments = attachments_of(parse(_raw(name)))
    if number >= len(attachments):
        abort(404)
    chosen = attachments[number]
    response = send_file(
        BytesIO(chosen.data),
        mimetype="application/octet-stream",
        as_attachment=True,
        download_name=chosen.name,
    )
    response.headers["Content-Security-Policy"] = MAIL_POLICY
    return response


def _maildir() -> Maildir:
    return Maildir(Path(current_app.config["DEMO_INBOX"]))


def _raw(name: str) -> bytes:
    raw = _maildir().read(name)
    if raw is None:
        abort(404)
    return raw
