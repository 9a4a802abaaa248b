"""One message: its life, its recipients, its content, and its files."""

from __future__ import annotations

from unicodedata import normalize
from urllib.parse import quote

from flask import Response, abort, request
from flask.typing import ResponseReturnValue

from ...domain.config.enqueue_options import MAX_ID
from ...domain.delivery.status import LEASED, Status
from ...domain.header.address import CONTROL
from ...flask_ext.management.audit import copied_as
from ...flask_ext.management.management import Management
from ...flask_ext.management.source import ACTS, AGAIN
from ...flask_ext.previews.shown import ShownEmail
from ...store.due_times import HELD
from ...store.erasure.placeholder import PLACEHOLDER
from ...store.report_records import AuditEntry, EmailDetails
from ...store.transitions.retry import RETRIED
from ..access.role import Role
from ..site.clock import now
from ..site.done import done_by, effective
from ..site.led import was_led
from ..site.render import render, without_surrogates
from ..site.site import Site, visitor
from .content import MOST_CHARACTERS, content_of, is_large, shown_email
from .life import life_of, newest_acts

FRAME_POLICY = (
    "sandbox; default-src 'none'; img-src data:; font-src data:; style-src 'unsafe-inline';"
    " form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
)
"""What a shown message may do, which may be hostile: no scripts, and it loads nothing."""
_HEAD = '<base target="_blank"><meta http-equiv="x-dns-prefetch-control" content="off">'
"""So a click on a link opens a window, which the sandbox forbids. And the browser looks up no name
of a link before a click: the name alone may tell the sender who reads."""
MOST_NAMED = 20
"""With more recipients, the page has no form for each of them."""


def add_to(site: Site) -> None:
    """Add the pages of one message."""
    rule = "/messages/<outbox_number:email_id>"
    site.page(rule, show)
    site.page(f"{rule}/html", html, Role.READ)
    site.page(f"{rule}/message.eml", download, Role.READ)
    site.page(f"{rule}/files/<outbox_number:number>", file, Role.READ)


def show(email_id: int) -> ResponseReturnValue:
    """Show one message."""
    email = _found(email_id)
    found = newest_acts(email_id)
    acts = found[:ACTS]
    done = done_by(visitor().who, found) if "done" in request.args else None
    return render(
        "messages/one.html",
        email=email,
        life=life_of(email, acts),
        most_acts=ACTS if len(found) > ACTS else 0,
        content=content_of(email, visitor(), request.args.get("view", "")),
        most=MOST_CHARACTERS,
        is_large=is_large(email),
        is_held=email.due_at == HELD,
        done=done,
        is_past=done is not None and done.act.result in set(Status) - {email.status},
        again=_sent_again(acts) if was_led("again") else None,
        is_anew=was_led("anew"),
        newest=effective(acts),
        seen=acts[0].id if acts else 0,
        copy_of=_copied_from(email_id),
        may=_possible(email),
        is_over=_is_over(email),
        people=_people(email),
    )


def html(email_id: int) -> ResponseReturnValue:
    """Serve the HTML part for the frame."""
    part = _shown(email_id).framed.html
    response = Response(_HEAD + without_surrogates(part), mimetype="text/html")
    response.headers["Content-Security-Policy"] = FRAME_POLICY
    response.headers["X-Frame-Options"] = "SAMEORIGIN"
    return response


def download(email_id: int) -> ResponseReturnValue:
    """Serve the whole message as a file for an e-mail program."""
    return _file(_shown(email_id).octets, "message/rfc822", f"message-{email_id}.eml")


def file(email_id: int, number: int) -> ResponseReturnValue:
    """Serve an attachment as a file to keep: a browser never shows one as a page of ours."""
    files = _shown(email_id).files
    if number >= len(files):
        abort(404)
    return _file(files[number].content, "application/octet-stream", files[number].name)


def _file(octets: bytes, kind: str, name: str) -> Response:
    response = Response(octets, mimetype=kind)
    response.headers.set("Content-Disposition", "attachment", **_named(name))
    response.headers["Content-Security-Policy"] = FRAME_POLICY
    return response


def _named(name: str) -> dict[str, str]:
    """Return the parameters for a name in any script: a header has ASCII alone (RFC 6266 §4.3)."""
    name = CONTROL.sub("_", without_surrogates(name))
    if name.isascii():
        return {"filename": name}
    plain = normalize("NFKD", name).encode("ascii", "ignore").decode("ascii")
    return {"filename": plain, "filename*": f"UTF-8''{quote(name, safe='')}"}


def _found(email_id: int) -> EmailDetails:
    email = Management().get(email_id) if email_id else None
    if email is None:
        abort(404)
    return email


def _shown(email_id: int) -> ShownEmail:
    email, octets = _found(email_id), Management().source(email_id)
    if octets is None:
        abort(404)
    return shown_email(email, octets)


def _sent_again(acts: tuple[AuditEntry, ...]) -> AuditEntry | None:
    return next((one for one in acts if one.action == AGAIN), None)


def _copied_from(email_id: int) -> int | None:
    """Return the message that the address names, if the audit says that this one is its copy."""
    given = request.args.get("copy_of", 0, type=int)
    if not 0 < given <= MAX_ID:
        return None
    made = copied_as(email_id)
    return given if any(act.result == made for act in newest_acts(given)) else None


def _possible(email: EmailDetails) -> set[str]:
    """Return what a person who may act can do to a message with this status."""
    if not visitor().may_act:
        return set()
    found = {"suppress"} if 0 < len(_people(email)) <= MOST_NAMED else set()
    if email.redacted_at is None:
        found.add("send_again")
    if email.due_at == HELD:
        found.add("release")
    if email.status in (Status.PENDING, *LEASED):
        found.add("cancel")
    if _may_be_retried(email) and not _is_over(email):
        found.add("retry")
    if email.status is Status.UNKNOWN:
        found.add("resolve")
    return found


def _may_be_retried(email: EmailDetails) -> bool:
    """Return whether it could be retried in its time."""
    return email.status in RETRIED and email.redacted_at is None


def _is_over(email: EmailDetails) -> bool:
    """Return whether it needs a person, and has come past its time: a retry would leave it."""
    past = email.expires_at is not None and email.expires_at <= now()
    return past and _may_be_retried(email)


def _people(email: EmailDetails) -> list[str]:
    """Return the addresses of its recipients, without those that were erased."""
    return [one.address for one in email.recipient_list if one.address != PLACEHOLDER]
