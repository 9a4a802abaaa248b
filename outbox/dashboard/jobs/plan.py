"""The plan that a dry run gives to its form: signed, so that what is started is what was shown.

It names the visitor, the action, the filters, the place up to which messages were counted, and how
many they were. It says nothing beyond what its page and a search show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ..access import signing
from ..access.signing import Forged

FIELD = "plan"
LIFETIME = 3600
"""Seconds for which what a dry run has counted may be started."""
_SALT = "outbox-job"


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a visitor has seen, and may start."""

    who: str
    action: str
    filters: Mapping[str, str]  # the fields of the search form that are filled in
    upto: str
    emails: int
    more: bool  # whether there may be more
    stuck: int  # how many would fit, too, if somebody retried them
    more_stuck: bool

    def sign(self) -> str:
        """Return the plan as a text that nobody else can make."""
        return signing.sign(_SALT, asdict(self))

    @classmethod
    def read(cls, given: str, who: str) -> Plan:
        """Return the plan of this visitor; raise Forged for any other text."""
        try:
            found = cls(**signing.read(_SALT, given, LIFETIME))
        except TypeError as refusal:
            raise Forged from refusal
        if found.who != who:
            raise Forged
        return found
