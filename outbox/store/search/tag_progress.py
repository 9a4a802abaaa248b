"""How far the emails of a tag have come, in milliseconds, however many there are.

Few emails are counted. Of many, a sample is read that is spread evenly over all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection, case, func, select

from ...domain.delivery.status import LEASED, NEEDS_PERSON, Status
from ..backend import backend_of
from ..connection.database import Database
from ..connection.list_parts import is_among, parts
from ..queries.id_steps import ids_of_tag
from ..records import Depth, TagFinding
from ..schema.clock import utc
from .spread import probes


@dataclass(frozen=True, kw_only=True, slots=True)
class TagProgress:
    """How far the emails of a tag have come."""

    tag: str
    emails: int  # how many there are; if they are too many to be counted, at least so many
    is_counted: bool
    statuses: Mapping[Status, int]  # of all emails; if they are not counted, of a sample
    problems: Mapping[Status, int]  # failed, unknown; among those that came to need a person last
    more_problems: bool  # whether there may be more of these than `problems` has
    first_at: datetime  # when its first and its last email were enqueued
    last_at: datetime

    @property
    def waiting(self) -> int:
        """How many are not sent yet: they wait, or a worker has them."""
        return sum(self.statuses.get(status, 0) for status in (Status.PENDING, *LEASED))

    def share(self, emails: int) -> float:
        """Return the part of all emails, from 0 to 1, that so many of `statuses` are."""
        return emails / max(1, sum(self.statuses.values()))


def tag_progress(
    connection: Connection, database: Database, tags: Collection[str], depth: Depth
) -> tuple[TagProgress, ...]:
    """Return the progress of each of these tags that has emails."""
    if (own := backend_of(database.dialect).tag_findings) is not None:
        return tuple(_together(tags, own(connection, database, list(tags), depth), depth))
    each = (_progress(connection, database, tag, depth) for tag in tags)
    found = [one for one in each if one is not None]
    if all(one.is_counted for one in found):
        return tuple(found)
    problems = _problems(connection, database, tags, depth.problems)
    more = sum(counts.total() for counts in problems.values()) >= depth.problems
    return tuple(
        one
        if one.is_counted
        else replace(one, problems=problems.get(one.tag, {}), more_problems=more)
        for one in found
    )


def _together(
    tags: Iterable[str], found: Iterable[TagFinding], depth: Depth
) -> Iterator[TagProgress]:
    """Yield the progress of each tag of which something was found."""
    ends, numbers = dict[str, tuple[datetime, datetime]](), dict[tuple[str, str], Counter[Status]]()
    needy = 0
    for one in found:
        if one.first_at is not None and one.last_at is not None:
            ends[one.tag] = utc(one.first_at), utc(one.last_at)
        elif one.what == "needy":
            needy = one.emails
        else:
            numbers.setdefault((one.what, one.tag), Counter())[Status(one.status)] += one.emails
    for tag in tags:
        if tag in ends:
            of_tag = {what: numbers.get((what, tag), Counter()) for what in _KINDS}
            yield _told(tag, *ends[tag], of_tag, needy, depth)


_KINDS = ("newest", "sample", "problem")


def _told(
    tag: str,
    first_at: datetime,
    last_at: datetime,
    found: Mapping[str, Counter[Status]],
    needy: int,
    depth: Depth,
) -> TagProgress:
    newest, emails = found["newest"], found["newest"].total()
    is_counted = emails <= depth.counted
    return TagProgress(
        tag=tag,
        emails=min(emails, depth.counted),
        is_counted=is_counted,
        statuses=newest if is_counted else found["sample"],
        problems=_needing(newest) if is_counted else found["problem"],
        more_problems=not is_counted and needy >= depth.problems,
        first_at=first_at,
        last_at=last_at,
    )


def _needing(statuses: Mapping[Status, int]) -> dict[Status, int]:
    return {status: statuses[status] for status in NEEDS_PERSON if status in statuses}


def _progress(
    connection: Connection, database: Database, tag: str, depth: Depth
) -> TagProgress | None:
    email = database.tables.email.c
    ends = select(func.min(email.id), func.max(email.id)).where(email.tag == tag)
    first, last = connection.execute(ends).one()
    at = select(email.id, email.created_at).where(email.id.in_([first, last]))
    moments = {row.id: utc(row.created_at) for row in connection.execute(at)}
    if not moments.keys() >= {first, last}:  # there is none, or it has just been removed
        return None
    statuses = _counted(connection, database, tag, depth.counted)
    emails = sum(statuses.values())
    if emails > depth.counted:
        sample = probes(database, email.status, first, last, tag, depth.sample)
        found = connection.execute(sample).scalars()
        statuses = Counter(Status(status) for status in found if status is not None)
    return TagProgress(
        tag=tag,
        emails=min(emails, depth.counted),
        is_counted=emails <= depth.counted,
        statuses=statuses,
        problems=_needing(statuses),
        more_problems=False,
        first_at=moments[first],
        last_at=moments[last],
    )


def _counted(connection: Connection, database: Database, tag: str, most: int) -> Counter[Status]:
    """Return the number of emails by status, of the newest ones and one more than `most`."""
    email, found = database.tables.email.c, Counter[Status]()
    newest = ids_of_tag(database, tag).order_by(email.id.desc()).limit(most + 1)
    for part in parts(sorted(connection.execute(newest).scalars())):
        statement = select(email.status, func.count()).where(is_among(database, email.id, part))
        for status, emails in connection.execute(statement.group_by(email.status)):
            found[Status(status)] += emails
    return found


def _problems(
    connection: Connection, database: Database, tags: Collection[str], most: int
) -> dict[str | None, Counter[Status]]:
    """Return by tag how many emails need a person, among the last of them; None: of other tags."""
    email = database.tables.email.c
    last = (
        select(case((email.tag.in_(tags), email.tag)).label("tag"), email.status)
        .where(email.attention_at.is_not(None))
        .order_by(email.attention_at.desc(), email.id.desc())
        .limit(most)
        .subquery()
    )
    counts = select(last.c.tag, last.c.status, func.count())
    found = dict[str | None, Counter[Status]]()
    for tag, status, emails in connection.execute(counts.group_by(last.c.tag, last.c.status)):
        found.setdefault(tag, Counter())[Status(status)] = emails
    return found
