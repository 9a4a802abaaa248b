"""What the result of one email says of the email, of those before it, and of the server."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple


class Kind(Enum):
    """To whom the result is due."""

    JUDGED = auto()  # the email was judged for itself: those set aside before it are to blame
    OWN = auto()  # the result is the email's own, and tells nothing of the others
    ASIDE = auto()  # another email must tell, or another server may take it
    BLAMED = auto()  # halted again, and an email unlike it was taken meanwhile: it is to blame
    CLASS = auto()  # this and all that are left are alike: others that wait must tell
    SERVER = auto()  # the server is to blame: its breaker is open


class Diagnosis(NamedTuple):
    """What a `Watch` makes of one result."""

    kind: Kind
    acquitted: frozenset[int] = frozenset()  # SERVER: emails that it refused as it refuses all
    witness: int | None = None  # BLAMED: the email that was taken meanwhile

    @property
    def is_final(self) -> bool:
        """Whether the email's result is its own, and is to be recorded."""
        return self.kind is Kind.JUDGED or self.kind is Kind.OWN

    @property
    def is_of_server(self) -> bool:
        """Whether nothing more is to be given to this server now."""
        return self.kind is Kind.SERVER or self.kind is Kind.CLASS


JUDGED = Diagnosis(Kind.JUDGED)
OWN = Diagnosis(Kind.OWN)
ASIDE = Diagnosis(Kind.ASIDE)
CLASS = Diagnosis(Kind.CLASS)
SERVER = Diagnosis(Kind.SERVER)
