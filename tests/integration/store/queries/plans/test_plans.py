"""Nothing that is asked again and again goes through the table of emails, however it is planned.

PostgreSQL plans a statement that comes often without its values. Then it knows of no lane, no
priority and no moment, and expects to find at once what is not there at all.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from outbox import Priority
from outbox.store.postgresql import window
from outbox.store.postgresql.window_statement import in_a_hurry, past_others
from outbox.store.queries.sweep.locked_emails import is_any_free
from outbox.store.queries.sweep.sweep_snapshot import read_snapshot
from outbox.store.queries.sweep.urgent_email import is_urgent_active
from outbox.store.records import WindowChange
from outbox.store.transitions.expire import expire
from outbox.store.transitions.window import advance_together
from outbox.worker.capacity.claimable import are_left
from outbox.worker.sweep import sweep
from tests.integration.store.queries.plans.generic_plans import Look, each, plans
from tests.support.shop.shop import WORKER, Shop, addresses, newsletter, sent
from tests.support.shop.steps.claims import claim_batch
from tests.support.shop.steps.giving_way import gives_way

MAILS = 3000

LOOKS: dict[str, Look] = {
    "snapshot": lambda shop: read_snapshot(
        shop.database, shop.runtime.lanes, shop.runtime.servers, limit=1600
    ),
    "expire": lambda shop: expire(shop.database),
    "urgent waits": lambda shop: gives_way(shop, slots=4),
    "bulk waits": lambda shop: gives_way(shop, Priority.BULK, slots=4),
    "urgent stirs": lambda shop: is_urgent_active(shop.database, shop.runtime.lanes, ""),
    "any is left": lambda shop: are_left(shop.runtime),
    "nobody holds one": lambda shop: is_any_free(shop.database, [("", Priority.NORMAL)]),
}


@pytest.fixture
def backlog(shop: Shop) -> Shop:
    """A shop whose emails are all due, none urgent, and all expire some day; statistics know it."""
    some_day = datetime.now(UTC) + timedelta(days=30)
    with shop.session() as session:
        shop.outbox.enqueue_many(
            newsletter(),
            addresses(MAILS),
            session=session,
            expires_at=some_day,
            priority=Priority.NORMAL,
        )
        session.commit()
    with shop.engine.begin() as connection:
        connection.exec_driver_sql("ANALYZE outbox_email")
    return shop


def _by_index(shop: Shop, look: str) -> list[dict[str, Any]]:
    """Assert that a look finds emails by indexes alone; return these parts of its plans."""
    nodes = [node for plan in plans(shop, LOOKS[look]) for node in each(plan)]
    scans = [node for node in nodes if node.get("Relation Name") == "outbox_email"]
    assert scans
    assert {node["Node Type"] for node in scans} <= {"Index Scan", "Index Only Scan"}
    return scans


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("look", LOOKS)
def test_a_plan_without_values_goes_by_the_indexes(backlog: Shop, look: str) -> None:
    scans = _by_index(backlog, look)
    assert {node["Index Name"] for node in scans} <= {
        "ix_outbox_email_due",
        "ix_outbox_email_expires",
    }


@pytest.mark.long
@pytest.mark.databases("postgresql")
def test_a_sweep_is_planned_once_and_not_each_time(backlog: Shop) -> None:
    """A plan takes longer than the look itself. PostgreSQL knows a statement after five times."""
    for _ in range(20):
        sweep(backlog.runtime, lambda _: None)
    with backlog.engine.connect() as connection:
        kept = connection.exec_driver_sql(
            "SELECT generic_plans, custom_plans, statement FROM pg_prepared_statements"
            " WHERE generic_plans + custom_plans > 9"
        ).all()
    assert any("outbox_pause" in row.statement for row in kept), "the snapshot"
    assert [row for row in kept if row.custom_plans > 5] == []


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("look", LOOKS)
def test_a_plan_made_while_nothing_waits_goes_by_the_indexes_too(shop: Shop, look: str) -> None:
    _by_index(shop, look)


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("look", ["snapshot", "expire"])
def test_a_plan_goes_by_the_indexes_where_nothing_ever_expires(shop: Shop, look: str) -> None:
    """Statistics know that then, but not beside a moment that is read from the clock."""
    with shop.session() as session:
        shop.outbox.enqueue_many(newsletter(), addresses(MAILS), session=session)
        session.commit()
    email = shop.tables.email
    ended = {"status": "sent", "due_at": None, "finished_at": datetime.now(UTC)}
    with shop.engine.begin() as connection:
        connection.execute(sa.update(email).where(email.c.id % 2 == 0).values(ended))
        connection.exec_driver_sql("ANALYZE outbox_email")
    _by_index(shop, look)


@pytest.mark.databases("postgresql")
def test_one_batch_and_its_lease_are_claimed_by_the_indexes(backlog: Shop) -> None:
    def look(shop: Shop) -> object:
        return claim_batch(shop.database, Priority.URGENT, 10, lease_seconds=60.0)

    *_, plan = plans(backlog, look)
    scans = [node for node in each(plan) if node.get("Relation Name") == "outbox_email"]
    reads = [node for node in scans if node["Node Type"] != "ModifyTable"]
    assert sorted((node["Node Type"], node["Index Name"]) for node in reads) == [
        ("Index Scan", "ix_outbox_email_due"),
        ("Index Scan", "outbox_email_pkey"),
    ]


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("way", [in_a_hurry, past_others])
def test_windows_of_several_tasks_find_their_own_emails_only(
    backlog: Shop, way: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each by its id, though statistics of an idle moment make the index of tokens look empty."""
    monkeypatch.setattr(window, "in_a_hurry", way)
    changes = [WindowChange(UUID(int=task), (sent(task),), (task + 10,)) for task in (1, 2)]
    *_, plan = plans(backlog, lambda shop: advance_together(shop.database, changes, worker=WORKER))
    nodes = list(each(plan))
    scans = [node for node in nodes if node.get("Relation Name") == "outbox_email"]
    reads = [node for node in scans if node["Node Type"] != "ModifyTable"]
    assert len(reads) == (2 if way is in_a_hurry else 4)
    for node in reads:
        assert (node["Node Type"], node["Index Name"]) == ("Index Scan", "outbox_email_pkey")
        assert node["Index Cond"].startswith("(id = ")
