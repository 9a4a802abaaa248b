"""What one email's result says of the email, of the emails before it, and of the server."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple


class Kind(Enum):
    """Who or what caused the result."""

    JUDGED = auto()  # the email was judged for itself: emails set aside before are to blame
    OWN = auto()  # the result is the email's own, and tells nothing of the others
    OPEN = auto()  # a probe's email is refused as all were: the next ones tell whose fault it is
    DOUBTS = auto()  # the email is in doubt, as those before it were: its server's breaker is open
    ASIDE = auto()  # the next email must tell, or another server may take this one
    BLAMED = auto()  # halted again, while an email unlike it was taken: this email is to blame
    CLASS = auto()  # this email and all that are left are alike: other waiting emails must tell
    SERVER = auto()  # the server is to blame: its breaker is open


class Diagnosis(NamedTuple):
    """What a `Watch` concludes from one result."""

    kind: Kind
    acquitted: frozenset[int] = frozenset()  # SERVER: emails that were refused as all are
    witness: int | None = None  # BLAMED: the email that was taken meanwhile

    @property
    def is_final(self) -> bool:
        """Whether the result is the email's own and is to be recorded."""
        return self.kind in (Kind.JUDGED, Kind.OWN, Kind.OPEN, Kind.DOUBTS)

    @property
    def is_of_server(self) -> bool:
        """Whether this server gets no more emails of the batch."""
        return self.kind in (Kind.SERVER, Kind.CLASS, Kind.DOUBTS)


JUDGED = Diagnosis(Kind.JUDGED)
OWN = Diagnosis(Kind.OWN)
OPEN = Diagnosis(Kind.OPEN)
DOUBTS = Diagnosis(Kind.DOUBTS)
ASIDE = Diagnosis(Kind.ASIDE)
CLASS = Diagnosis(Kind.CLASS)
SERVER = Diagnosis(Kind.SERVER)
