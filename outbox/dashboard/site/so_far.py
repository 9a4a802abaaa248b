"""How far an act has come that is done in parts: each request hands it to the next one, signed.

An address may say anything, and a form, too. So a page repeats no number that another page of the
same visitor has not signed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass, replace

from flask import request
from werkzeug.exceptions import HTTPException

from ...flask_ext.app.state import state_of
from ...flask_ext.management.corrections import Part
from ...store.bounded_waits import bounded_reads
from ..access import csrf, signing
from ..access.signing import Forged
from .site import visitor

FIELD = "so_far"


@dataclass(frozen=True, kw_only=True, slots=True)
class SoFar:
    """What the parts have done, and where the next one begins."""

    changed: int = 0
    otherwise: int = 0
    locked: int = 0
    after: int | None = None  # None: at the beginning, or all is done

    def plus(self, part: Part) -> SoFar:
        """Return how far it is behind this part."""
        return SoFar(
            changed=self.changed + part.changed,
            otherwise=self.otherwise + part.otherwise,
            locked=self.locked + part.locked,
            after=part.next,
        )

    def sign(self, act: str) -> str:
        """Return it as the text of a field, or of an address, which names nobody."""
        return signing.sign(_salt(act), astuple(self))

    @classmethod
    def read(cls, act: str, given: str, lifetime: float | None = csrf.LIFETIME) -> SoFar:
        """Return what this visitor's text says of the `act`; raise Forged for any other text."""
        changed, otherwise, locked, after = signing.read(_salt(act), given, lifetime)
        return cls(changed=changed, otherwise=otherwise, locked=locked, after=after)


def posted(act: str) -> SoFar:
    """Return how far the act has come, as the form says; raise Forged for a wrong text."""
    given = request.form.get(FIELD)
    return SoFar() if given is None else SoFar.read(act, given)


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
        found = SoFar.read(act, request.form.get(FIELD, ""), None)
    except (Forged, HTTPException):
        found = SoFar()
    found = found if part is None else found.plus(part)
    return found if found.changed or found.otherwise else None


def counted_if_possible(count: Callable[[], str]) -> str:
    """Return the text of a count; nothing where that meets an error, maybe the same one again."""
    try:
        with bounded_reads(state_of().runtime.database):
            return count()
    except Exception:  # noqa: BLE001  (the page of an error must come)
        return ""


def _salt(act: str) -> str:
    return signing.salt_of("outbox-so-far", visitor().who, act)
