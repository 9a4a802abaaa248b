"""The words of a failed assertion: what was wanted, and the emails that come nearest to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..domain.counted import counted
from .enqueued import EnqueuedEmail
from .wanted import Difference, Wanted

NEAREST = 3
"""How many emails a failure shows."""
MOST = 20
"""How many emails a failure lists."""


def none_matches(wanted: Wanted, emails: Sequence[EnqueuedEmail], discarded: int) -> str:
    """Return the text where no email matches; `discarded` were enqueued and never committed."""
    lines = [f"no email was enqueued with {wanted}" if len(wanted) else "no email was enqueued"]
    if discarded:
        lines.append(f"{_emails(discarded)} discarded: the session was closed without a commit")
    if emails and len(wanted):
        lines += ["", f"{_emails(len(emails))} enqueued. The nearest (- wanted, + found):"]
        lines += _nearest(wanted, emails)
    return "\n".join(lines)


def another_number(wanted: Wanted, emails: Sequence[EnqueuedEmail], count: int) -> str:
    """Return the text where more or fewer emails match than `count`."""
    like = f" with {wanted}" if len(wanted) else ""
    return "\n".join([f"{_emails(len(emails))} enqueued{like}, not {count}:", *_listed(emails)])


def _nearest(wanted: Wanted, emails: Sequence[EnqueuedEmail]) -> Iterator[str]:
    missed = [(email, wanted.differences(email)) for email in emails]
    missed.sort(key=lambda one: (len(one[1]), -_likeness(one[1])))
    for email, differences in missed[:NEAREST]:
        yield ""
        yield f"  {email}"
        for difference in differences:
            yield from (f"    {line}" for line in difference.lines())


def _likeness(differences: Sequence[Difference]) -> float:
    return sum(difference.likeness for difference in differences)


def _listed(emails: Sequence[EnqueuedEmail]) -> Iterator[str]:
    yield from (f"  {email}" for email in emails[:MOST])
    if len(emails) > MOST:
        yield f"  and {len(emails) - MOST} more"


def _emails(number: int) -> str:
    return counted(number, "email was", "emails were")
