"""Where MariaDB has a way of its own, it does what the portable way does, on the same rows."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.delivery.outcome import RecipientStatus
from outbox.domain.delivery.status import Status
from outbox.store.backend import backend_of
from outbox.store.deletion import delete_keyed
from outbox.store.transitions.cancel import withdraw_ids
from tests.integration.twins import Twins, at, content, email, examples, lease

pytestmark = pytest.mark.databases("mariadb")

TOKEN = UUID(int=1)
IDS = range(1, 9)
chosen = st.lists(st.sampled_from(IDS), unique=True)
made_up = examples(40)


def test_both_ways_are_run(twins: Twins) -> None:
    own, other = backend_of(twins.shop.database.dialect), backend_of(twins.portable.dialect)
    assert own.withdraw is not None
    assert own.delete_keyed is not None
    assert own.add_to_sums is not None
    assert (other.withdraw, other.delete_keyed, other.add_to_sums) == (None, None, None)


def recipients(number: int, statuses: list[RecipientStatus]) -> list[dict[str, Any]]:
    return [
        {"email_id": number, "position": place, "address": f"{place}@x.example", "status": status}
        for place, status in enumerate(statuses)
    ]


@made_up
@given(data=st.data())
def test_emails_are_withdrawn_alike(twins: Twins, data: st.DataObject) -> None:
    emails, several = [], []
    statuses = st.sampled_from([Status.PENDING, Status.PENDING, Status.CLAIMED, *Status])
    for number in IDS:
        fates = data.draw(st.lists(st.sampled_from(RecipientStatus), max_size=3))
        row = email(
            number,
            data.draw(statuses),
            token=TOKEN,
            unknown_count=data.draw(st.sampled_from([0, 0, 1])),
            recipients=max(1, len(fates)),
        )
        emails.append(row)
        several += recipients(number, fates) if len(fates) > 1 else []
    ids = data.draw(chosen)
    own, other = twins.both(
        lambda database: database.run(lambda c: withdraw_ids(c, database, ids)),
        content=[content()],
        email=emails,
        recipient=several,
        lease=[lease(TOKEN)],
    )
    assert own == other


@made_up
@given(ids=chosen, count=st.integers(1, 3))
def test_rows_are_deleted_alike(twins: Twins, ids: list[int], count: int) -> None:
    tables = twins.shop.tables
    attempt = {
        "started_at": at(-1), "finished_at": at(0), "verdict": "sent", "phase": "dot", "code": 250,
        "enhanced": "", "reply": "", "worker": "", "server": "",
    }  # fmt: skip

    def delete(database: Any) -> None:
        def work(connection: Any) -> None:
            log, index = tables.attempt.c.email_id, "ix_outbox_attempt_email_id"
            delete_keyed(connection, database, log, ids, index=index)
            delete_keyed(connection, database, tables.recipient.c.email_id, ids)

        database.run(work)

    own, other = twins.both(
        delete,
        content=[content()],
        email=[email(number, Status.SENT) for number in IDS],
        recipient=[
            row for number in IDS for row in recipients(number, [RecipientStatus.SENT] * count)
        ],
        attempt=[attempt | {"email_id": number} for number in IDS],
    )
    assert own == other
    assert len(own[1]["attempt"]) == len(IDS) - len(ids)
