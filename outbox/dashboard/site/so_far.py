"""How far an act has come that is done in parts: each request hands it to the next one, signed.

An address may say anything, and a form, too. So a page repeats no number that another page of the
same visitor has not signed.

A form may be sent twice, by two clicks or by the back button. Then each answer alone would tell too
small a number. So the numbers are those of the audit, since the page was made that began the act.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple, dataclass, fields, replace

from flask import request
from werkzeug.exceptions import HTTPException

from ...domain.config.enqueue_options import MAX_ID
from ...flask_ext.app.state import state_of
from ...flask_ext.management import audit
from ...flask_ext.management.audit import Act
from ...flask_ext.management.corrections import Part
from ...store.bounded_waits import bounded_reads
from ..access import csrf, signing
from ..access.signing import Forged
from .errors import Halfway
from .site import visitor

FIELD = "so_far"
SEEN = "seen"
"""The field of the form that begins an act: where the audit ended when its page was made."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SoFar:
    """What the parts have done, and where the next one begins."""

    changed: int = 0
    otherwise: int = 0
    locked: int = 0
    after: int | None = None  # None: at the beginning, or all is done
    since: int | None = None  # the entry of the audit behind which the act began

    def plus(self, part: Part) -> SoFar:
        """Return how far it is behind this part."""
        return replace(
            self,
            changed=self.changed + part.changed,
            otherwise=self.otherwise + part.otherwise,
            locked=self.locked + part.locked,
            after=part.next,
        )

    def with_others(self, act: Act | None) -> SoFar:
        """Add what other requests of this visitor have done of the same act, as the audit says."""
        if act is None or self.since is None:
            return self
        changed, otherwise = audit.sum_since(state_of().writer_runtime, act, self.since)
        # An erasure may have changed an entry since.
        return replace(
            self, changed=max(changed, self.changed), otherwise=max(otherwise, self.otherwise)
        )

    def sign(self, act: str) -> str:
        """Return it as the text of a field, or of an address, which names nobody."""
        return signing.sign(_salt(act), astuple(self))

    @classmethod
    def read(cls, act: str, given: str, lifetime: float | None = csrf.LIFETIME) -> SoFar:
        """Return what this visitor's text says of the `act`; raise Forged for any other text."""
        return cls(**dict(zip(_FIELDS, signing.read(_salt(act), given, lifetime), strict=True)))


_FIELDS = tuple(field.name for field in fields(SoFar))


def posted(act: str) -> SoFar:
    """Return how far the act has come, as the form says; raise Forged for a wrong text."""
    given = request.form.get(FIELD)
    return SoFar(since=_seen()) if given is None else SoFar.read(act, given)


def seen() -> int | None:
    """Return what the field of a form that begins an act says; None: this visitor sees no form."""
    return audit.end_of(state_of().runtime) if visitor().may_act else None


def _seen() -> int | None:
    given = request.form.get(SEEN, type=int)
    return None if given is None else min(max(given, 0), MAX_ID)


def told(act: str) -> SoFar | None:
    """Return what the act has done, as the address says; None for any text that is not ours."""
    try:
        found = SoFar.read(act, request.args.get(FIELD, ""))
    except Forged:
        return None
    return replace(found, after=None)  # no address makes a browser go on


def at_break(act: str, part: Part | None) -> SoFar | None:
    """Return how far it is where an error has ended a `part`, or was before it; None: nowhere.

    The form may be too old. What was done before that is as true.
    """
    try:
        given = request.form.get(FIELD)
        found = SoFar(since=_seen()) if given is None else SoFar.read(act, given, None)
    except (Forged, HTTPException):
        found = SoFar()
    found = found if part is None else found.plus(part)
    return found if found.changed or found.otherwise else None


def elsewhere(act: str, page: str) -> Halfway | None:
    """Return where to look, if the form goes on with what this visitor has not begun.

    So it is where somebody logs out and another person logs in, while the browser goes on.
    """
    with suppress(HTTPException):  # of a form that is too large
        given = request.form.get(FIELD)
        try:
            if given is not None:
                SoFar.read(act, given, None)
        except Forged:
            return Halfway(page=page)
    return None


def counted_if_possible(count: Callable[[], str]) -> str:
    """Return the text of a count; nothing where that meets an error, maybe the same one again."""
    try:
        with bounded_reads(state_of().runtime.database):
            return count()
    except Exception:  # noqa: BLE001  (the page of an error must come)
        return ""


def _salt(act: str) -> str:
    return signing.salt_of("outbox-so-far", visitor().who, act)
