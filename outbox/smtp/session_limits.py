"""How much one session takes: what the server offers (RFC 9422), and what its refusals taught."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from ..domain.header.address import domain_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

TAUGHT_SECONDS = 3600.0
"""Seconds for which a refusal's lesson holds. To learn it anew costs a session, and no email."""

_LIMIT = re.compile(r"([A-Za-z0-9_-]+)=([1-9]\d{0,5})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What a session takes, as the server says in its reply to EHLO; infinite where it does not."""

    emails: float = inf  # MAIL commands in the session (MAILMAX)
    recipients: float = inf  # RCPT commands in a transaction (RCPTMAX)
    domains: float = inf  # of all recipients of the session (RCPTDOMAINMAX)

    def room(self, recipients: Sequence[str], named: Collection[str] = ()) -> int:
        """Return how many of these recipients, from the first on, the next transaction takes.

        `named` are the domains of the session's earlier recipients.
        """
        if self.domains == inf:
            return int(min(self.recipients, len(recipients)))
        domains = set(named)
        for place, address in enumerate(recipients):
            domains.add(domain_of(address))
            if place >= self.recipients or len(domains) > self.domains:
                return place
        return len(recipients)


def offered(extensions: Mapping[str, str]) -> Limits | None:
    """Return the limits that a reply to EHLO names, or None where it names none that we know.

    A value that is no number of one to six digits is passed over (RFC 9422 §3, §4).
    """
    words = extensions.get("limits")
    if not words:
        return None
    pairs = (_LIMIT.fullmatch(word) for word in words.split())
    values = {pair[1].upper(): int(pair[2]) for pair in pairs if pair is not None}
    limits = Limits(
        emails=values.get("MAILMAX", inf),
        recipients=values.get("RCPTMAX", inf),
        domains=values.get("RCPTDOMAINMAX", inf),
    )
    return None if limits == Limits() else limits


class Taught:
    """How many emails one server takes over a session, as its refusals have shown.

    The threads of a process share it: what is known is replaced as a whole.
    """

    def __init__(self) -> None:
        self._known = (inf, 0.0)  # emails a session, and until when that holds

    def emails(self, now: float) -> float:
        """Return how many emails to send over one session at most, at this time on our clock."""
        emails, until = self._known
        return emails if now < until else inf

    def note(self, emails: int, now: float) -> None:
        """Note that the server took no more than so many emails over a session."""
        self._known = (min(emails, self.emails(now)), now + TAUGHT_SECONDS)
