"""To, Cc and Bcc each come to an outcome of their own, and whoever asks is told all of it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update

from outbox import Email, Status
from outbox.store.transitions import resolve
from outbox.worker.drain import drain
from tests.support.servers.smtp.stateful import EXTENSIONS, Answer, StatefulServer, hang_up
from tests.support.shop.shop import Shop, Shops, message
from tests.support.verdicts.play import moment

pytestmark = pytest.mark.one_database("mariadb")

DAY = 86_400.0
TO, CC, BCC = "to@x.example", "cc@x.example", "bcc@x.example"
LATER, NO = "450 4.2.0 later", "550 5.1.1 unknown"


def open_shop(shops: Shops, server: StatefulServer, **config: object) -> Shop:
    shop = shops.open(MAIL_PORT=server.port, **config)
    shop.runtime.random = lambda: 0.5
    return shop


def enqueue(shop: Shop, **options: Any) -> Email:
    """Enqueue and commit an email to three: one in To, one in Cc and one in Bcc."""
    with shop.session() as session:
        email = shop.outbox.enqueue(message(TO, Cc=CC, Bcc=BCC), session=session, **options)
        session.commit()
    return email


def shown(shop: Shop, email: Email) -> dict[str, Any]:
    """Return what `flask outbox show --json` tells."""
    told: dict[str, Any] = json.loads(show(shop, email, "--json"))
    return told


def show(shop: Shop, email: Email, *words: str) -> str:
    result = shop.app.test_cli_runner().invoke(args=["outbox", "show", str(email.id), *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def fates(shop: Shop, email: Email) -> dict[str, str]:
    return {r["address"]: r["status"] for r in shown(shop, email)["recipient_list"]}


@pytest.mark.parametrize("pipelining", [False, True], ids=["plain", "pipelined"])
def test_who_was_taken_is_never_written_to_again_who_was_put_off_alone_and_who_was_refused_never(
    shops: Shops, pipelining: bool
) -> None:
    extensions = (*EXTENSIONS, *(("PIPELINING",) if pipelining else ()))
    answers: dict[str, Answer] = {"RCPT 2": LATER, "RCPT 3": NO, "RCPT 4": LATER}
    with StatefulServer(answers, extensions=extensions) as server:
        shop = open_shop(shops, server)
        email = enqueue(shop)
        drain(shop.runtime)
        first = shown(shop, email)
        shop.later(DAY)
        drain(shop.runtime)
        shop.later(DAY / 2)
        drain(shop.runtime)
    assert (first["status"], first["attempts"]) == ("pending", 1)
    assert [
        (r["address"], r["status"], r["code"], r["enhanced"], r["reply"])
        for r in first["recipient_list"]
    ] == [
        (TO, "sent", 250, "2.0.0", "queued"),
        (CC, "pending", 450, "4.2.0", "later"),
        (BCC, "failed", 550, "5.1.1", "unknown"),
    ]
    [before, after] = server.accepted
    assert (before.recipients, after.recipients) == ((TO,), (CC,))
    assert before.content == after.content
    assert BCC.encode() not in before.content
    verbs = [line for dialogue in server.dialogues for line in dialogue.lines if "RCPT" in line]
    assert [line[9:-1] for line in verbs] == [TO, CC, BCC, CC, CC]
    last = shown(shop, email)
    assert (last["status"], last["attempts"]) == ("sent", 3)
    assert fates(shop, email) == {TO: "sent", CC: "sent", BCC: "failed"}
    assert [a["verdict"] for a in last["attempt_list"]] == ["sent", "retry", "sent"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("answers", "status", "fate"),
    [
        ({}, "sent", ("sent", "sent", "sent")),
        ({"RCPT 2": NO, "RCPT 3": NO}, "sent", ("sent", "failed", "failed")),
        ({"RCPT": NO, "RCPT 2": NO, "RCPT 3": NO}, "failed", ("failed", "failed", "failed")),
        ({"RCPT 2": NO, ".": "554 5.7.1 spam"}, "failed", ("failed", "failed", "failed")),
        ({"RCPT": NO, "RCPT 2": LATER}, "pending", ("failed", "pending", "sent")),
        ({"RCPT": NO, "RCPT 2": LATER, ".": hang_up}, "pending", ("failed", "pending", "unknown")),
    ],
    ids=["all", "one", "none", "refused at the dot", "some later", "in doubt"],
)
@pytest.mark.databases("sqlite")
def test_the_command_line_tells_the_whole_truth(
    shops: Shops, answers: dict[str, Answer], status: str, fate: tuple[str, ...]
) -> None:
    with StatefulServer(answers) as server:
        shop = open_shop(shops, server)
        email = enqueue(shop)
        drain(shop.runtime)
    assert fates(shop, email) == dict(zip((TO, CC, BCC), fate, strict=True))
    assert shown(shop, email)["status"] == status
    lines = [line.split() for line in show(shop, email).splitlines()]
    assert ["status", status] in lines
    told = [line for line in lines if line[1] in (TO, CC, BCC) and line[0] != "recipient"]
    assert [line[:2] for line in told] == [[fate[0], TO], [fate[1], CC], [fate[2], BCC]]
    codes = {"failed": ("550", "554"), "pending": ("450",), "sent": ("250",)}
    assert all(line[2] in codes[line[0]] for line in told if line[0] in codes)


@pytest.mark.databases("sqlite")
def test_a_recipient_put_off_until_the_attempts_are_used_up_has_failed_and_the_email_is_sent(
    shops: Shops,
) -> None:
    with StatefulServer({"RCPT 2": LATER, "RCPT 4": LATER}) as server:
        shop = open_shop(shops, server)
        email = enqueue(shop, max_attempts=2)
        for _ in range(2):
            drain(shop.runtime)
            shop.later(DAY / 2)
    assert shown(shop, email)["status"] == "sent"
    assert fates(shop, email) == {TO: "sent", CC: "failed", BCC: "sent"}


@pytest.mark.parametrize("taken_first", [False, True])
def test_an_email_that_the_server_drops_again_and_again_fails_with_all_whom_it_did_not_reach(
    shops: Shops, taken_first: bool
) -> None:
    """The server cannot hold it: it ends by its lifetime, and the email behind it goes its way.

    It costs a life where the email behind it is taken. Afterwards it goes alone, and nobody knows
    whether the server would take another one.
    """
    begin: dict[str, Answer] = {"RCPT 2": LATER, "RCPT 3": LATER} if taken_first else {}
    # From the second loss on the email goes alone, behind the batch.
    places = ("DATA 3", "DATA 5", "DATA 8") if taken_first else ("DATA", "DATA 3", "DATA 6")
    drops: dict[str, Answer] = dict.fromkeys(places, hang_up)
    with StatefulServer(begin | drops) as server:
        shop = open_shop(shops, server, OUTBOX_LIFETIME=80.0)
        email = enqueue(shop)
        for _ in range(3 + taken_first):
            shop.enqueue("behind@x.example")
            drain(shop.runtime)
            shop.later(DAY / 4)
    assert shop.email_row(email.id).crashes == 2
    assert shown(shop, email)["status"] == ("sent" if taken_first else "failed")
    expected = {TO: "sent" if taken_first else "failed", CC: "failed", BCC: "failed"}
    assert fates(shop, email) == shop.recipients(email.id) == expected
    assert shop.statuses().count("sent") == 3 + 2 * taken_first
    assert not server.unused


@pytest.mark.databases("sqlite")
def test_a_damaged_content_fails_for_every_recipient(shops: Shops) -> None:
    with StatefulServer() as server:
        shop = open_shop(shops, server)
        email = enqueue(shop)
        with shop.engine.begin() as connection:
            connection.execute(update(shop.tables.content).values(body=b"torn"))
        drain(shop.runtime)
    assert shown(shop, email)["status"] == "failed"
    assert fates(shop, email) == shop.recipients(email.id) == dict.fromkeys((TO, CC, BCC), "failed")


def test_a_doubt_of_one_recipient_is_his_alone_and_ends_when_he_is_taken(shops: Shops) -> None:
    with StatefulServer({"RCPT 2": LATER, "RCPT 3": NO, ".": hang_up}) as server:
        shop = open_shop(shops, server)
        email = enqueue(shop)
        drain(shop.runtime)
        assert fates(shop, email) == {TO: "unknown", CC: "pending", BCC: "failed"}
        server.unused |= {"RCPT 4": NO, "RCPT 5": "250 2.1.5 ok"}  # he is refused the next time
        shop.later(DAY)
        drain(shop.runtime)
    # A copy may have come through before: only of him nobody knows.
    assert shown(shop, email)["status"] == "unknown"
    assert fates(shop, email) == {TO: "unknown", CC: "sent", BCC: "failed"}
    assert [mail.recipients for mail in server.accepted] == [(CC,)]


@pytest.mark.parametrize("resolved", [False, True])
def test_who_waits_in_an_email_that_is_withdrawn_is_not_written_to_whatever_becomes_of_a_doubt(
    shops: Shops, resolved: bool
) -> None:
    with StatefulServer({"RCPT 2": LATER, ".": hang_up}) as server:
        shop = open_shop(shops, server)
        email = enqueue(shop, key="order")
        drain(shop.runtime)
        assert shop.app.test_cli_runner().invoke(args=["outbox", "cancel", "--key", "order"])
        assert fates(shop, email) == {TO: "unknown", CC: "failed", BCC: "unknown"}
        if resolved:
            work = resolve.resolve
            shop.database.run(lambda c: work(c, shop.database, [email.id], Status.SENT))
        shop.later(DAY)
        drain(shop.runtime)
        assert server.accepted == []
    assert shop.status(email.id) == ("sent" if resolved else "unknown")
    assert "withdrawn" in show(shop, email)


@pytest.mark.databases("sqlite")
def test_who_waits_in_an_email_that_expires_after_others_got_it_is_told_to_be_left_out(
    shops: Shops,
) -> None:
    with StatefulServer({"RCPT 2": LATER}) as server:
        shop = open_shop(shops, server)
        email = enqueue(shop, expires_at=moment(shop) + timedelta(hours=1))
        drain(shop.runtime)
        shop.later(DAY)
        drain(shop.runtime)
    assert shown(shop, email)["status"] == "sent"
    assert fates(shop, email) == {TO: "sent", CC: "unsent", BCC: "sent"}
    assert [mail.recipients for mail in server.accepted] == [(TO, BCC)]
