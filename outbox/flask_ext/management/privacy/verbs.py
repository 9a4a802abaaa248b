"""The verbs for one person's data; `Outbox` inherits them."""

from __future__ import annotations

from collections.abc import Iterator

from ..verbs import Verbs
from . import erase, export
from .erase import Erasure
from .export import Exported


class PrivacyVerbs(Verbs):
    """What `Outbox` can do for a person who asks for their data, or asks to be forgotten."""

    def export(self, address: str, *, scan: bool = False) -> Iterator[Exported]:
        """Yield what the outbox has of one person: the suppression list's entry, and each email.

        Case does not count. An email has its attempts, and what its message says, if that is still
        there. Of its other recipients it has what the message says, as in To and Cc, and no more.
        The lookup finds the emails; `scan` reads all emails instead, as it does where OUTBOX_SEARCH
        leaves recipients out.
        """
        return export.export(self._runtime, address, scan)

    def erase(self, address: str, *, scan: bool = False, by: str | None = None) -> Erasure:
        """Erase one person: their emails lose the address and what they said; the rows stay.

        What is not sent yet is cancelled first. The address leaves the suppression list, and a
        tombstone stays: a keyed digest, by which later emails to the address end `suppressed` and
        are erased at once. The result names the emails that are left, with the reason: one that is
        being sent, or is in doubt, or waits for other recipients. Call it again for these.

        It commits transactions of at most 200 emails each. Emails that another transaction has
        locked are passed over, and are `left`. `scan` is as in `export`. `by` names a person for
        the audit, which does not get the address. Raises ConfigurationError without an
        OUTBOX_ERASE_KEY and a SECRET_KEY.
        """
        return erase.erase(self._writer_runtime, address, scan, by)

    def readmit(self, address: str, *, by: str | None = None) -> bool:
        """Let a person get email again who was erased; return False if there was no tombstone.

        It is committed when it returns. Emails that were suppressed meanwhile are not sent, and
        have lost what they said.
        """
        return erase.readmit(self._writer_runtime, address, by)
