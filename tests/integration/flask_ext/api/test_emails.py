"""`Outbox.get` and `Outbox.list`: emails as typed records."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, timedelta

import pytest

from outbox import EmailDetails, EmailPage, InvalidMessage, Priority, Status
from tests.support.shop.shell import parsed, runner, stuck
from tests.support.shop.shop import START, WORKER, Shop, message

pytestmark = pytest.mark.one_database("postgresql")


def test_get_returns_an_email_with_its_attempts(shop: Shop) -> None:
    email_id = stuck(shop, Status.FAILED)
    email = shop.outbox.get(email_id)
    assert isinstance(email, EmailDetails)
    assert (email.id, email.status, email.priority) == (email_id, Status.FAILED, Priority.NORMAL)
    assert (email.subject, email.recipient, email.attempts) == ("Order 1", "a@customers.example", 1)
    assert email.finished_at is not None
    assert email.finished_at.tzinfo is UTC
    assert email.due_at is None
    [recipient], [attempt] = email.recipient_list, email.attempt_list
    assert (recipient.address, recipient.status) == ("a@customers.example", Status.FAILED)
    assert (attempt.verdict, attempt.phase, attempt.code) == ("fail", "dot", 550)
    assert (attempt.started_at, attempt.worker) == (START, WORKER)
    assert shop.outbox.get(email_id + 1) is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        email.status = Status.SENT  # type: ignore[misc]


def test_each_of_several_recipients_has_a_status_of_its_own(shop: Shop) -> None:
    one = shop.enqueue("a@x.example", "b@x.example", on_unknown="hold")
    shop.lose(one.id)
    found = shop.outbox.get(one.id)
    assert found is not None
    assert [(r.address, r.status) for r in found.recipient_list] == [
        ("a@x.example", Status.UNKNOWN),
        ("b@x.example", Status.UNKNOWN),
    ]
    assert found.recipients == 2


def test_who_was_left_out_of_an_email_that_was_sent_is_unsent(shop: Shop) -> None:
    email = shop.enqueue("a@x.example", "b@x.example")
    table, rows = shop.tables.email, shop.tables.recipient
    with shop.engine.begin() as connection:
        connection.execute(rows.update().where(rows.c.position == 0).values(status="sent"))
        values = {"status": "sent", "due_at": None, "finished_at": START}
        connection.execute(table.update().values(**values))
    found = shop.outbox.get(email.id)
    assert found is not None
    assert [recipient.status for recipient in found.recipient_list] == [Status.SENT, "unsent"]


def test_list_is_newest_first_and_filtered(shop: Shop) -> None:
    later = START.replace(year=2400)
    with shop.session() as session:
        ids = [
            shop.outbox.enqueue(
                message(), session=session, tag=tag, priority=priority, send_at=later, key=tag + "k"
            ).id
            for tag, priority in (("x", "bulk"), ("y", "urgent"), ("z", "normal"))
        ]
        session.commit()
    emails = shop.outbox.list().emails
    assert [email.id for email in emails] == ids[::-1]
    assert [email.priority for email in emails] == [
        Priority.NORMAL,
        Priority.URGENT,
        Priority.BULK,
    ]
    first = emails[-1]
    assert (first.tag, first.key, first.status) == ("x", "xk", Status.PENDING)
    assert first.send_at == first.due_at == later
    assert first.send_at is not None
    assert first.send_at.utcoffset() == timedelta(0)
    assert [email.id for email in shop.outbox.list(limit=1)] == ids[2:]
    assert [email.id for email in shop.outbox.list(tag="y")] == [ids[1]]
    for status in (Status.SENT, "sent"):
        assert shop.outbox.list(status=status) == EmailPage(emails=(), next=None)
    assert len(shop.outbox.list(status="pending")) == 3


def test_what_is_not_committed_is_not_seen(shop: Shop) -> None:
    with shop.session() as session:
        email = shop.outbox.enqueue(message(), session=session)
        assert (shop.outbox.get(email.id), len(shop.outbox.list())) == (None, 0)
        session.commit()
    assert shop.outbox.get(email.id) is not None


def test_the_shell_prints_the_same_in_json(shop: Shop) -> None:
    """Key by key, as scripts know them: times in ISO 8601, priorities in small letters."""
    one, two = stuck(shop, Status.FAILED), shop.enqueue("a@x.example", "b@x.example").id
    run = runner(shop)
    for email_id in (one, two):
        email, shown = shop.outbox.get(email_id), parsed(run("show", email_id, "--json"))
        assert email is not None
        names = [field.name for field in dataclasses.fields(email)]
        assert list(shown) == names
        assert shown["priority"] == "normal"
        assert shown["created_at"] == email.created_at.isoformat()
    single, several = (
        [set(r) for r in parsed(run("show", email_id, "--json"))["recipient_list"]]
        for email_id in (one, two)
    )
    assert single == [{"address", "status"}]
    assert several == [{"address", "status", "code", "enhanced", "reply"}] * 2
    lines = run("list", "--json").stdout.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [two, one]
    assert json.loads(lines[0]).keys() == {
        *("id", "status", "priority", "recipient", "recipients", "attempts", "tag", "key"),
        *("created_at", "due_at", "send_at", "expires_at", "finished_at"),
    }


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("given", [0, -1, "17", None, True, 1.0, 2**63])
def test_get_takes_an_id(shop: Shop, given: object) -> None:
    with pytest.raises(InvalidMessage, match="id: must be a number from 1 to"):
        shop.outbox.get(given)  # type: ignore[arg-type]


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("which", "told"),
    [
        ({"status": "gone"}, "status: must be one of pending, claimed, sending, sent"),
        ({"status": 3}, "status: must be one of"),
        ({"tag": ""}, "tag: must be text of 1 to 100 characters"),
        (
            {"status": "expired"},
            "status: no index has expired; indexes serve recipient, message_id",
        ),
        ({"after": "x"}, "after: must be the `next` of the page before"),
        ({"limit": 0}, "limit: must be a number from 1 to 1000"),
        ({"limit": 1001}, "limit: must be a number"),
        ({"limit": True}, "limit: must be a number"),
        ({"limit": None}, "limit: must be a number"),
    ],
)
def test_list_names_the_argument_that_is_wrong(
    shop: Shop, which: dict[str, object], told: str
) -> None:
    with pytest.raises(InvalidMessage, match=told):
        shop.outbox.list(**which)  # type: ignore[arg-type]
