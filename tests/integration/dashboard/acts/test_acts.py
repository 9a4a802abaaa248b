"""What a person does on the dashboard is done by the outbox's verbs, and is in the audit."""

from __future__ import annotations

import csv
import re
from concurrent.futures import ThreadPoolExecutor
from email import message_from_bytes
from io import BytesIO, StringIO
from typing import Any

import pytest

from outbox import SentAgain, Status
from outbox.dashboard.controls import suppression_file
from outbox.domain.header.address import check_address
from tests.integration.dashboard.desk import Desk, whole
from tests.support.shop.shell import stuck
from tests.support.shop.shop import message

pytestmark = pytest.mark.one_database("sqlite")


def audited(desk: Desk) -> list[tuple[str, str, int | None, str]]:
    entries = reversed(desk.shop.outbox.audit())
    return [(one.who, one.action, one.email_id, one.result) for one in entries]


def test_retry_cancel_and_resolve(desk: Desk) -> None:
    failed, doubtful = stuck(desk.shop, Status.FAILED), stuck(desk.shop, Status.UNKNOWN)
    waits = desk.enqueue(message())
    page = desk.followed(f"/messages/{failed}/retry", f"/messages/{failed}")
    assert "Retry: the message is pending." in page
    page = desk.followed(f"/messages/{waits}/cancel", f"/messages/{waits}")
    assert "Cancel: the message is cancelled." in page
    path = f"/messages/{doubtful}"
    page = desk.followed(f"{path}/resolve", path, outcome="sent")
    assert "Resolve as sent: the message is sent." in page
    statuses = [desk.shop.status(one) for one in (failed, waits, doubtful)]
    assert statuses == [Status.PENDING, Status.CANCELLED, Status.SENT]
    assert audited(desk) == [
        ("ada", "retry", failed, "pending"),
        ("ada", "cancel", waits, "cancelled"),
        ("ada", "resolve as sent", doubtful, "sent"),
    ]
    life = desk.get(path).text
    assert "ada: resolve as sent" in life


def test_two_people_resolve_one_message_and_the_second_sees_what_the_first_did(desk: Desk) -> None:
    path = f"/messages/{stuck(desk.shop, Status.UNKNOWN)}"
    bobs = desk.token(path)
    desk.post(f"{path}/resolve", path, outcome="sent")
    desk.who = "bob"
    bobs = desk.token("/pauses")
    done = desk.client.post(
        f"/outbox{path}/resolve", data={"csrf_token": bobs, "outcome": "failed"}
    )
    page = desk.client.get(done.headers["Location"]).text
    assert "Nothing was changed." in page
    assert "the message is sent" in page
    assert "Before you, ada: resolve as sent (sent)" in page
    page = desk.followed(f"{path}/resolve", path, outcome="failed")
    assert "Before you, ada: resolve as sent (sent)" in page  # and not bob's, which did nothing


def test_a_wrong_outcome_changes_nothing(desk: Desk) -> None:
    email_id = stuck(desk.shop, Status.UNKNOWN)
    path = f"/messages/{email_id}"
    page = desk.post(f"{path}/resolve", path, 400, outcome="pending").text
    assert "outcome: must be one of sent, failed" in page
    assert desk.shop.status(email_id) is Status.UNKNOWN


def test_send_again_makes_a_new_message_of_the_same_content(desk: Desk) -> None:
    email_id = desk.enqueue(whole(), key="order-1", tag="order-1")
    done = desk.post(f"/messages/{email_id}/send-again", f"/messages/{email_id}")
    made = desk.shop.outbox.get(email_id + 1)
    assert made is not None
    assert f"/messages/{made.id}?copy_of={email_id}" in done.headers["Location"]
    assert "a new message" in desk.client.get(done.headers["Location"]).text
    assert (made.key, made.tag, made.status) == (None, "order-1", Status.PENDING)
    old, new = (message_from_bytes(desk.shop.outbox.source(i) or b"") for i in (email_id, made.id))
    assert old["Message-ID"] != new["Message-ID"] == made.message_id
    kept = [(k, v) for k, v in old.items() if k not in ("Message-ID", "Date")]
    assert [(k, v) for k, v in new.items() if k not in ("Message-ID", "Date")] == kept
    assert old.as_bytes().partition(b"\n\n")[2] == new.as_bytes().partition(b"\n\n")[2]
    assert audited(desk) == [("ada", "send again", email_id, f"enqueued as {made.id}")]


def test_a_second_click_on_send_again_makes_no_second_message(desk: Desk) -> None:
    email_id = desk.enqueue(message())
    path = f"/messages/{email_id}"
    first = seen(desk.get(path).text)
    desk.post(f"{path}/send-again", path, seen=first)
    desk.who = "bob"
    page = desk.followed(f"{path}/send-again", path, seen=first)
    assert "No further message was made." in page
    assert f"ada sent it again just now: enqueued as {email_id + 1}" in page
    desk.post(f"{path}/send-again", path, seen=seen(page))
    assert len(desk.shop.outbox.list().emails) == 3


@pytest.mark.each_database
def test_two_clicks_at_the_same_moment_make_one_message(desk: Desk) -> None:
    email_id = desk.enqueue(message())
    outbox, app = desk.shop.outbox, desk.shop.app

    def click(_: int) -> bool:
        with app.app_context():
            try:
                outbox.send_again(email_id, by="ada", seen=0)
            except SentAgain:
                return False
            return True

    with ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(click, range(8))) == [*[False] * 7, True]
    assert len(outbox.list().emails) == 2


def seen(page: str) -> str:
    """Return the field that tells which acts the page of a message shows."""
    return str(re.findall(r'name="seen" value="(\d+)"', page)[0])


def test_suppress_from_a_message(desk: Desk) -> None:
    path = f"/messages/{desk.enqueue(message())}"
    page = desk.followed(f"{path}/suppress", path, address="a@customers.example")
    assert "a@customers.example is on the list." in page
    (found,) = desk.shop.outbox.suppressed()
    assert (found.address, found.reason) == ("a@customers.example", "by hand, from message 1")
    assert "a@customers" not in str(desk.shop.outbox.audit())


def test_the_list_of_suppressed_addresses(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outbox.dashboard.controls.suppressed.PAGE", 2)
    assert "The list is empty" in desk.get("/suppressed").text
    for name in "abc":
        desk.post("/suppressed/add", "/suppressed", new=f" {name}@x.example ", reason="left")
    first = desk.get("/suppressed").text
    assert "b@x.example" in first
    assert "c@x.example</td>" not in first
    second = desk.get("/suppressed", after="b@x.example").text
    assert "c@x.example" in second
    assert "Next addresses" not in second
    assert "left" in desk.get("/suppressed", address="C@X.example").text
    assert "Not on the list" in desk.get("/suppressed", address="d@x.example").text
    desk.post("/suppressed/remove", "/suppressed", address="a@x.example")
    assert [one.address[0] for one in desk.shop.outbox.suppressed()] == ["b", "c"]
    page = desk.post("/suppressed/add", "/suppressed", 400, new="no address").text
    assert "an address has the form local-part@domain" in page
    assert 'value="no address"' in page
    assert "an address has the form" in desk.get("/suppressed", 400, address="x").text


def bring_in(desk: Desk, octets: bytes, status: int = 200) -> str:
    file = {"file": (BytesIO(octets), "list.csv")}
    return desk.post("/suppressed/import", "/suppressed", status, **file).text


def test_a_file_is_brought_in_and_its_wrong_lines_are_told(desk: Desk) -> None:
    desk.shop.outbox.suppress("known@x.example")
    page = bring_in(
        desk,
        b"\xef\xbb\xbfAddress,Reason\r\nA@x.example,hard bounce\r\n\r\nwrong\r\n"
        b"known@x.example\r\n'=formula@x.example,left\r\na@x.example,twice\r\n",
    )
    assert "2 addresses were added." in page
    assert "2 were on the list already, or twice in the file" in page
    assert "line 4: an address has the form local-part@domain" in page
    found = {one.address: one.reason for one in desk.shop.outbox.suppressed()}
    assert found == {
        "=formula@x.example": "left", "a@x.example": "hard bounce", "known@x.example": "by hand",
    }  # fmt: skip
    exported = desk.get("/suppressed.csv")
    assert exported.text.splitlines()[:2] == ["address,reason", "'=formula@x.example,left"]
    for one in found:
        desk.shop.outbox.unsuppress(one)
    bring_in(desk, exported.data)
    assert {one.address for one in desk.shop.outbox.suppressed()} == set(found)


def test_a_spreadsheet_may_write_semicolons(desk: Desk) -> None:
    bring_in(desk, b'address;reason\r\na@x.example;"left, with thanks"\r\nb@x.example;x, y\r\n')
    bring_in(desk, b"c@x.example,first; then\r\n")
    bring_in(desk, b'# bounces; of May\r\nd@x.example,gone\r\n"""a;b""@x.example",odd\r\n')
    bring_in(desk, b"\r\ne@x.example;gone\r\n")
    found = {one.address: one.reason for one in desk.shop.outbox.suppressed()}
    assert found == {
        "a@x.example": "left, with thanks", "b@x.example": "x, y", "c@x.example": "first; then",
        "d@x.example": "gone", '"a;b"@x.example': "odd", "e@x.example": "gone",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("octets", "told"),
    [
        (b"", "has no line with an address"),
        (b"\xff\xfe", "must be text in UTF-8"),
        (b"a@x.example\n" * 11, "has over 10 lines"),
        (b"x" * 400_001, "has over 1 MB"),
        (b'"' + b"x" * 200_000, "cannot be read as CSV"),
        (b'a@x.example\n"b@x.example\nc@x.example\n', "that line 2 opens and does not close"),
        (b'a@x.example,"no\r\nd@x.example,"b" c"\r\n', "that line 1 opens and does not close"),
        (b'a@x.example\n"' + b"x" * 200_000 + b"\n\n", "cannot be read as CSV, line 2"),
    ],
)
def test_a_file_that_cannot_be_read_changes_nothing(
    desk: Desk, octets: bytes, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suppression_file, "MOST_LINES", 10)
    monkeypatch.setattr(suppression_file, "MOST_OCTETS", 400_000)
    assert told in bring_in(desk, octets, 400)
    assert desk.shop.outbox.suppressed() == ()


REASONS = [
    "bounced;=cmd|'/C calc'!A0", "'=x;'-y", ";;+1", "a;b", '550 x;"=1+1;y', '"=1+1', '""+1;""@x',
    '";"=1;"',
]  # fmt: skip


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_is_no_formula_wherever_a_spreadsheet_splits_it(desk: Desk, reason: str) -> None:
    desk.shop.outbox.suppress("a@x.example", reason)
    exported = desk.get("/suppressed.csv")
    assert not re.search(r"(^|[,;\"])[=+@-]", exported.text, re.MULTILINE)
    for delimiter in ",;\t":
        rows = csv.reader(StringIO(exported.text, newline=""), delimiter=delimiter)
        assert not [cell for row in rows for cell in row if cell.startswith(("=", "+", "-", "@"))]
    assert desk.shop.outbox.unsuppress("a@x.example")
    bring_in(desk, exported.data)
    assert [one.reason for one in desk.shop.outbox.suppressed()] == [reason]


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is examined as an address of a file, which may have ten lines."""
    found = list[str]()

    def examine(address: str, field: str) -> str:
        found.append(address)
        return check_address(address, field)

    monkeypatch.setattr(suppression_file, "check_address", examine)
    monkeypatch.setattr(suppression_file, "MOST_LINES", 10)
    return found


def test_no_line_of_a_file_that_is_too_long_is_examined(desk: Desk, examined: list[str]) -> None:
    assert "has over 10 lines" in bring_in(desk, b"x\n" * 10 + b"a@x.example\n", 400)
    assert examined == []
    bring_in(desk, b"x\n" * 9 + b"a@x.example\n" + b"\n" * 20)
    assert examined[-1] == "a@x.example"
    assert len(desk.shop.outbox.suppressed()) == 1


@pytest.mark.parametrize("end", ["\x0b", "\x0c", "\x1c", "\u2028", "\n", "\r"])
def test_no_more_lines_are_examined_than_a_file_may_have(
    desk: Desk, examined: list[str], end: str
) -> None:
    """Python's `splitlines` takes each of these for a line end."""
    bring_in(desk, f"no address{end * 500}".encode())
    assert len(examined) <= 20


def test_pause_and_resume(desk: Desk) -> None:
    desk.post("/pauses/pause", "/pauses", scope="bulk")
    page = desk.get("/pauses").text
    assert "<strong>Paused</strong> since" in page
    desk.post("/pauses/pause", "/pauses", scope="all")
    desk.post("/pauses/resume", "/pauses", scope="bulk")
    assert [one.scope for one in desk.shop.outbox.paused()] == ["all"]
    assert "priority" in desk.post("/pauses/pause", "/pauses", 400, scope="x").text
    said = [(one.action, dict(one.what)) for one in reversed(desk.shop.outbox.audit())]
    assert said == [
        ("pause", {"scope": "bulk"}), ("pause", {"scope": "all"}), ("resume", {"scope": "bulk"}),
    ]  # fmt: skip


def test_the_audit_is_read_page_by_page(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Nobody did anything yet" in desk.get("/audit").text
    monkeypatch.setattr("outbox.dashboard.controls.audit.PAGE", 2)
    acts: list[dict[str, Any]] = [{"scope": scope} for scope in ("urgent", "normal", "bulk")]
    for act in acts:
        desk.post("/pauses/pause", "/pauses", **act)
    first = desk.get("/audit").text
    assert "scope bulk" in first
    assert "scope urgent" not in first
    (older,) = re.findall(r"before=(\d+)", first)
    assert "scope urgent" in desk.get("/audit", before=older).text
    assert "That is all" in desk.get("/audit", before=1).text
