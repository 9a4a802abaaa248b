"""The suppression list: look an address up, add one or remove it; import a file, export one."""

from __future__ import annotations

from flask import Response, request, stream_with_context
from flask.typing import ResponseReturnValue

from ...domain.errors import InvalidMessage
from ...domain.header.address import MAX_ADDRESS
from ...flask_ext.app.state import state_of
from ...flask_ext.management import controls
from ...flask_ext.management.management import Management
from ...flask_ext.management.privacy.erase import is_erased
from ...store.report_records import Suppression
from ...store.schema.column_types import REASON_LENGTH
from ..access.role import Role
from ..site.done import since_of_form
from ..site.render import render
from ..site.site import Site, visitor
from ..site.told import lead_to_list, told
from . import suppression_file

PAGE = 100


def add_to(site: Site) -> None:
    """Add the page, the file and the acts."""
    site.page("/suppressed", index)
    site.page("/suppressed.csv", export, Role.READ)
    site.action("/suppressed/add", add)
    site.action("/suppressed/remove", remove)
    site.action("/suppressed/import", bring_in)


def index() -> ResponseReturnValue:
    """Show a page of the list, or one address of it."""
    return _page()


def _page(**more: object) -> tuple[str, int]:
    """Return the page; `more` is what came of a form."""
    (named, done), after = told(), _field("after")
    address = named or _field("address")
    problem, found, erased = "", tuple[Suppression, ...](), False
    try:
        found = Management().suppressed(
            address=address or None, after=after or None, limit=PAGE + 1
        )
        erased = bool(address) and is_erased(state_of().runtime, address)
    except InvalidMessage as error:
        problem = str(error)
    values: dict[str, object] = {
        "entries": found[:PAGE],
        "more": len(found) > PAGE,
        "address": address,
        "erased": erased,
        "after": after,
        "problem": problem,
        "added": "",
        "report": None,
        "done": done,
        "most_lines": suppression_file.MOST_LINES,
        **more,
    }
    return render("controls/suppressed.html", **values), 400 if values["problem"] else 200


def add() -> ResponseReturnValue:
    """Put an address on the list."""
    given = request.form.get("new", "").strip()[: MAX_ADDRESS * 2]
    reason = request.form.get("reason", "").strip()[:REASON_LENGTH] or "by hand"
    try:
        done = Management().suppress(given, reason, by=visitor().who)
    except InvalidMessage as error:
        return _page(problem=str(error), added=given)
    return lead_to_list(given, "added" if done else "known")


def remove() -> ResponseReturnValue:
    """Take an address off the list, if nobody has put it there anew since the page was made."""
    given = request.form.get("address", "")
    runtime = state_of().writer_runtime
    done = controls.unsuppress(runtime, given, visitor().who, since_of_form())
    return lead_to_list(given, "removed" if done else "missing")


def bring_in() -> ResponseReturnValue:
    """Put the addresses of a file on the list; tell which lines have none."""
    posted = request.files.get("file")
    octets = b"" if posted is None else posted.stream.read(suppression_file.MOST_OCTETS + 1)
    try:
        report = suppression_file.read_in(octets, by=visitor().who)
    except InvalidMessage as error:
        return _page(problem=str(error))
    return _page(report=report)


def export() -> ResponseReturnValue:
    """Return the whole list as a file, page by page."""
    lines = stream_with_context(suppression_file.lines())
    response = Response(lines, mimetype="text/csv")
    response.headers.set("Content-Disposition", "attachment", filename="suppressed.csv")
    return response


def _field(name: str) -> str:
    value = request.args.get(name, "").strip()
    if len(value) > MAX_ADDRESS:
        raise InvalidMessage(name, f"must be text of at most {MAX_ADDRESS} characters")
    return value
