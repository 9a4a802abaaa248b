"""`flask outbox list` and `show`, line by line for a terminal.

Any text in the table may come from a stranger, even a worker's name. So each line is cleaned as a
whole, and no control character reaches the terminal.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....store.report_records import EmailDetails, EmailSummary, Problem, Problems
from ...management.server_lines import contents_line, printable
from .json_output import plain


def list_line(email: EmailSummary) -> str:
    """Return one email in a line."""
    more = f" +{email.recipients - 1}" if email.recipients > 1 else ""
    when = email.finished_at or email.due_at or email.created_at
    return printable(
        f"{email.id:>8}  {email.status:<10} {plain(email.priority):<7}"
        f" {when:%Y-%m-%dT%H:%M:%S}  {email.recipient}{more}"
    )


def email_lines(email: EmailDetails) -> Iterator[str]:
    """Return all that is known of an email: its recipients, and every attempt."""
    yield from map(printable, _told(email))


def _told(email: EmailDetails) -> Iterator[str]:
    for name, value in plain(email).items():
        if value is not None and not isinstance(value, list):
            yield f"{name:<14}{value}"
    for reason in email.waits:
        yield f"{'waits':<14}{reason}"
    for recipient in email.recipient_list:
        reply = f"{recipient.code or ''} {recipient.reply or ''}".strip()
        yield f"  {recipient.status:<12}{recipient.address}  {reply}"
    for attempt in email.attempt_list:
        yield (
            f"  {attempt.finished_at:%Y-%m-%dT%H:%M:%S}  {attempt.verdict} at {attempt.phase}:"
            f" {attempt.code} {attempt.reply}  [{attempt.worker}]"
        )


def problem_lines(found: Problems) -> Iterator[str]:
    """Return what needs a person: two lines for each group, the newest first."""
    yield from map(printable, _told_of(found))


def _told_of(found: Problems) -> Iterator[str]:
    yield from map(contents_line, found.contents)
    for problem in found.groups:
        count = f"{problem.emails:>8}  {problem.status:<8}"
        yield f"{count} {problem.since:%Y-%m-%dT%H:%M:%S}  {problem.domain}  {_where(problem)}"
        yield f"{'':10}{problem.reply or 'no reply'}  (email {problem.id})"
    if found.more_groups:
        yield "there are more groups: --limit shows them"
    if found.more_emails:
        yield f"older ones are not counted: of the newest {found.emails} only"
    if not (found.groups or found.contents):
        yield "nothing needs a person"


def _where(problem: Problem) -> str:
    if not problem.phase:
        return "never judged by a server"
    code = f"{problem.code} {problem.enhanced}".strip() if problem.code else "no reply"
    return f"{code} at {problem.phase} of {problem.server or 'a lost worker'}"
