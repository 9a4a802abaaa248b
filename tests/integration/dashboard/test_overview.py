"""The overview: one line says whether all is well; what is not is told, with what to do."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
import sqlalchemy as sa
from celery import Celery

from outbox import Status
from outbox.dashboard.site.formats import bounded, span
from outbox.worker.broker.queues import QUEUES
from outbox.worker.drain import drain
from tests.integration.dashboard import scene
from tests.integration.dashboard.desk import Desk
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.encryption import keys
from tests.support.shop.shell import stuck
from tests.support.shop.shop import LEASE, Shops, message

pytestmark = pytest.mark.databases("sqlite", "postgresql")

SERVER = "127.0.0.1:1"


def line(page: str) -> str:
    """Return the line at the top."""
    found = re.search(r'<p class="line" role="status">(.*?)</p>', page)
    assert found
    return found[1]


def test_nothing_is_wrong_with_an_outbox_that_does_nothing(desk: Desk) -> None:
    page = desk.get("/").text
    assert line(page) == "All is well."
    assert "No worker has written itself down yet" in page
    assert "No task of beat was ever seen" in page
    assert page.count("No message was accepted.") == 2
    assert "No attempt failed." in page
    assert 'class="chart"' not in page


def test_it_tells_how_long_the_oldest_message_has_waited(desk: Desk) -> None:
    begun = time.monotonic()
    desk.enqueue(message())
    desk.shop.later(200)
    page = desk.get("/now").text
    passed = int(time.monotonic() - begun) + 1
    assert any(f"<dd>{span(200 + late)}</dd>" in page for late in range(passed + 1))
    desk.shop.later(7200)
    page = desk.get("/now").text
    assert line(page) == "Not all emails leave."
    assert "1 email has been due or claimed for over" in page
    assert 'class="age over"' in page


def test_a_halted_server_is_told_with_its_reason(desk: Desk) -> None:
    scene.halted(desk.shop, SERVER)
    page = desk.get("/").text
    assert line(page) == "Not all emails leave."
    assert "535 &lt;b&gt;no entry" in page
    assert '<span class="stamp" data-tone="bad">halted</span>' in page


def test_a_pause_is_told_with_a_link_to_its_page(desk: Desk) -> None:
    desk.shop.outbox.pause("bulk")
    page = desk.get("/").text
    assert line(page) == "Emails leave, and 1 thing needs a look."
    assert "the priority bulk is paused" in page
    assert '<a href="/outbox/pauses">See the pauses</a>' in page


def test_it_says_that_emails_are_held_since_a_restore(desk: Desk) -> None:
    desk.enqueue(message())
    desk.shop.outbox.restored()
    assert "emails are held since a restore" in desk.get("/").text
    desk.shop.outbox.release(everything=True)
    assert line(desk.get("/").text) == "All is well."


def test_it_says_where_emails_are_redirected_or_not_sent_at_all(shops: Shops) -> None:
    desk = Desk(shops, OUTBOX_REDIRECT_TO="dev@shop.example", MAIL_SUPPRESS_SEND=True)
    page = desk.get("/").text
    assert "every email goes to dev@shop.example" in page
    assert "MAIL_SUPPRESS_SEND is on" in page


def test_servers_are_shown_with_rate_and_cap(shops: Shops) -> None:
    server = {"name": "own", "server": "127.0.0.1", "port": 1, "rate": "14/s", "connections": 3}
    page = Desk(shops, OUTBOX_SERVERS=[server]).get("/").text
    assert "0 of 3" in page
    assert "14 a second" in page


def test_workers_are_shown_with_what_is_wrong_with_them(desk: Desk) -> None:
    assert "Nobody is there" in desk.get("/workers").text
    scene.fleet(desk.shop)
    scene.worker(desk.shop, "old", version="0.0.1", seen=30.0, queues="<i>")
    page = desk.get("/").text
    assert "3 live, 1 at work" in page
    assert "the worker celery@mail-3 is dead" in page
    known = len(desk.shop.outbox.workers().problems)
    assert page.count('<a href="/outbox/workers">See the workers</a>') == known >= 3
    page = desk.get("/workers").text
    for word in ("busy", "idle", "dead", "silent", "0.0.1", "&lt;i&gt;", "1 of 4 tasks at once"):
        assert word in page


def test_an_email_that_ends_its_workers_is_told_with_a_link_to_it(desk: Desk) -> None:
    shop, email_id = desk.shop, desk.enqueue(message())
    with shop.engine.begin() as connection:
        connection.execute(sa.update(shop.tables.email).values(crashes=1))
    shop.started()
    shop.later(LEASE * 0.7)
    page = desk.get("/").text
    assert f"email {email_id} was with 2 workers that were lost" in page
    assert f'<a href="/outbox/messages/{email_id}">See the message</a>' in page


def test_the_charts_are_tables_without_a_script(desk: Desk) -> None:
    scene.figures(desk.shop, server="<b>mx</b>")
    for last, rows in (("hour", 60), ("day", 24), ("week", 168)):
        page = desk.get("/figures", last=last).text
        assert page.count("<tr data-at=") == 3 * rows
        assert "&lt;b&gt;mx" in page
        assert "<b>mx" not in page
    assert re.search(r"refused</th><td>[^<]+</td><td>550</td>", page)
    assert desk.get("/", last="<script>").text.count('aria-current="true">Last hour') == 1


@pytest.mark.long
def test_among_the_reasons_a_missing_key_is_no_servers_fault(
    shops: Shops, catcher: Catcher
) -> None:
    Desk(shops, **keys("old")).enqueue(message())
    desk = Desk(shops, MAIL_PORT=catcher.port, **keys("new"))
    drain(desk.shop.runtime)
    page = desk.get("/figures").text
    told = "put off</th><td>before a server was asked</td><td>\N{EN DASH}</td>"
    assert f'<tr><th scope="row">{told}<td class="figure">1</td></tr>' in page


def test_no_worker_is_asked_over_the_broker(shops: Shops, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(shops, TESTING=False, MAIL_SUPPRESS_SEND=False)
    celery = Celery("shop", broker="redis://127.0.0.1:1", set_as_current=False)
    celery.conf.task_queues = QUEUES
    desk.shop.app.extensions["celery"] = celery
    desk.enqueue(message())
    desk.shop.later(7200)
    assert len(desk.shop.outbox.health().problems) > len(
        desk.shop.outbox.health(ask=False).problems
    )
    monkeypatch.setattr(celery, "connection_for_write", _never)
    monkeypatch.setattr(celery, "connection_for_read", _never)
    assert line(desk.get("/").text) == "Not all emails leave."


def _never(*_: object, **__: object) -> None:
    raise AssertionError("the broker was asked")


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.0, "0 s"),
        (0.0421, "42 ms"),
        (1.0, "1 s"),
        (119.0, "119 s"),
        (7200.0, "2 h"),
        (1e6, "11.6 d"),
    ],
)
def test_spans_are_short(seconds: float, told: str) -> None:
    assert span(seconds) == told


def test_a_number_that_is_not_counted_to_its_end_says_so() -> None:
    assert (bounded(9_999), bounded(10_000)) == ("9,999", "10,000+")


def test_failed_and_unknown_share_their_limit_and_both_say_so(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck(desk.shop, Status.FAILED)
    stuck(desk.shop, Status.UNKNOWN)
    shown = r'<dt>{}</dt>\s*<dd><a href="/outbox/problems">{}</a>'
    monkeypatch.setattr("outbox.store.queries.waiting.MOST_COUNTED", 1)
    assert re.search(shown.format("unknown", "1"), desk.get("/").text), "none of it is left out"
    monkeypatch.setattr("outbox.dashboard.overview.first_page.MOST_COUNTED", 1)
    page = desk.get("/").text
    assert re.search(shown.format("failed", r"0\+"), page)
    assert re.search(shown.format("unknown", r"1\+"), page)


def test_no_part_of_the_page_reads_all_messages(desk: Desk) -> None:
    statements: list[str] = []
    sa.event.listen(desk.shop.engine, "before_cursor_execute", _noting(statements))
    desk.get("/")
    assert len(statements) <= 20
    for text in statements:
        if "count(" in text.lower() and "outbox_email" in text:
            assert "LIMIT" in text, text


def _noting(statements: list[str]) -> Callable[..., None]:
    def note(_: object, __: object, statement: str, *___: object) -> None:
        statements.append(statement)

    return note
