"""What a page shows is found alike by PostgreSQL's one statement and step by step."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.delivery.status import NEEDS_PERSON, Status
from outbox.domain.priority import Priority
from outbox.domain.search.filters import Filters
from outbox.store.backend import backend_of
from outbox.store.queries import whole_state
from outbox.store.records import Depth
from outbox.store.search import spread, tags
from outbox.store.search.page import page
from outbox.store.search.problems import problems
from outbox.store.search.tag_progress import tag_progress
from tests.integration.twins import OTHERS, Twins, at, content, email, examples, lease
from tests.support.shop.shop import LEASE

pytestmark = [pytest.mark.long, pytest.mark.databases("postgresql")]

made_up = examples(50)


@pytest.mark.parametrize(
    "way", ["group_problems", "last_attempts", "newsletter_ids", "tag_findings", "waiting"]
)
def test_both_ways_are_run(twins: Twins, way: str) -> None:
    assert getattr(backend_of(twins.shop.database.dialect), way) is not None
    assert getattr(backend_of(twins.portable.dialect), way) is None


@st.composite
def rows_of_page(draw: st.DrawFn, number: int) -> dict[str, Any]:
    status = draw(st.sampled_from([*NEEDS_PERSON] * 3 + [Status.SENT, *Status]))
    row = email(
        number,
        status,
        token=OTHERS,
        due_at=at(draw(st.sampled_from([-3000, -10, 0, 50]))),
        lane=draw(st.sampled_from(["", "@a.example"])),
        priority=draw(st.sampled_from([0, 1, Priority.BULK, Priority.BULK])),
        tag=draw(st.sampled_from([None, *["news"] * 6, "News", "nëws", "more"])),
        recipient=draw(st.sampled_from(["a@x.example", "a@X.example", "b@y.example", '"@"@z'])),
    )
    ended = row["finished_at"] is not None or status in NEEDS_PERSON
    return row | ({"finished_at": at(draw(st.sampled_from([-9, -9, -5, -1])))} if ended else {})


@st.composite
def tries(draw: st.DrawFn, emails: int) -> list[dict[str, Any]]:
    """Attempts in no order of their emails; some emails have none."""
    return [
        {
            "id": number,
            "email_id": draw(st.integers(1, emails)),
            "started_at": at(-50),
            "finished_at": at(-50),
            "verdict": "fail",
            "phase": draw(st.sampled_from(["rcpt", "dot"])),
            "code": draw(st.sampled_from([550, 552])),
            "enhanced": draw(st.sampled_from(["", "5.1.1"])),
            "reply": f"reply {number}",
            "worker": "host:1",
            "server": draw(st.sampled_from(["mx:25", ""])),
        }
        for number in range(1, 2 * emails + 1)
    ]


@made_up
@given(data=st.data())
def test_problems_are_grouped_alike(twins: Twins, data: st.DataObject) -> None:
    rows = [data.draw(rows_of_page(number)) for number in range(1, data.draw(st.integers(2, 12)))]
    limit, newest = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 9))
    (own, _), (other, _) = twins.both(
        lambda database: database.read(lambda c: problems(c, database, limit, newest)),
        content=[content()],
        email=rows,
        attempt=data.draw(tries(len(rows))),
    )
    assert own == other


@made_up
@given(data=st.data())
def test_the_emails_of_a_group_are_found_alike(twins: Twins, data: st.DataObject) -> None:
    rows = [data.draw(rows_of_page(number)) for number in range(1, data.draw(st.integers(2, 12)))]
    filters = Filters.check(
        twins.shop.runtime.settings.indexed,
        status=data.draw(st.sampled_from([*NEEDS_PERSON])),
        server=data.draw(st.sampled_from([None, "mx:25", "(none)"])),
        reply=data.draw(st.sampled_from(["550 5.1.1", "552", "(none)"])),
    )
    (own, _), (other, _) = twins.both(
        lambda database: database.read(lambda c: page(c, database, filters, None, 5)),
        content=[content()],
        email=rows,
        attempt=data.draw(tries(len(rows))),
    )
    assert own == other


@made_up
@given(data=st.data())
def test_newsletters_are_found_alike(twins: Twins, data: st.DataObject) -> None:
    rows = [data.draw(rows_of_page(number)) for number in range(1, data.draw(st.integers(1, 14)))]
    with pytest.MonkeyPatch.context() as patched:
        for module, name in ((tags, "NEWEST"), (tags, "WAITING"), (spread, "PROBES")):
            patched.setattr(module, name, data.draw(st.integers(2, 5)))
        (own, _), (other, _) = twins.both(
            lambda database: database.read(lambda c: tags.newsletter_tags(c, database)),
            content=[content()],
            email=rows,
        )
    assert own == other


@made_up
@given(data=st.data())
def test_newsletters_are_counted_and_sampled_alike(twins: Twins, data: st.DataObject) -> None:
    rows = [data.draw(rows_of_page(number)) for number in range(1, data.draw(st.integers(6, 14)))]
    depth = Depth(
        counted=data.draw(st.integers(1, 4)),
        sample=data.draw(st.integers(2, 5)),
        problems=data.draw(st.integers(1, 6)),
    )
    chosen = data.draw(st.lists(st.sampled_from(["news", "News", "nëws", "none"]), unique=True))
    (own, _), (other, _) = twins.both(
        lambda database: database.read(lambda c: tag_progress(c, database, chosen, depth)),
        content=[content()],
        email=rows,
    )
    assert own == other


@made_up
@given(data=st.data())
def test_how_things_stand_is_read_alike(twins: Twins, data: st.DataObject) -> None:
    rows = [data.draw(rows_of_page(number)) for number in range(1, data.draw(st.integers(2, 12)))]

    def look(database: Any) -> list[object]:
        found = database.read(
            lambda c: whole_state.look(c, database, limit=60.0, lease_seconds=LEASE, max_crashes=3)
        )
        return [found.backlog, found.standstill, found.has_held, found.marks]

    (own, _), (other, _) = twins.both(
        look,
        content=[content()],
        email=rows,
        attempt=data.draw(tries(len(rows))),
        lease=[lease(OTHERS)],
    )
    assert own == other
