"""A late reply that is known is kept, although its email's row or a step behind it fails."""

from __future__ import annotations

import pytest

from outbox.smtp import reply_reader
from outbox.store.queries.sweep import preemption
from outbox.worker.batch import todo
from outbox.worker.batch.server_choice import ServerChoice
from outbox.worker.process import retry_writes
from tests.integration.blame.server import ClassServer
from tests.integration.worker.silence.silent_content import (
    SilentBehind,
    awaited,
    have_the_process_go_on,
    silence,
    two_routes,
    write,
)
from tests.integration.worker.silence.test_silent_server import (
    DEADLINE,
    statuses,
    until,
    workers,
)
from tests.support.shop.schema import refusing
from tests.support.shop.shop import Shop, Shops
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.one_database("postgresql"),
    pytest.mark.databases("postgresql", "mariadb"),
]

CODES = {"postgresql": "UE001", "mariadb": "31001"}


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(todo, "SLOW", 0.3)
    monkeypatch.setattr(preemption, "_LEFT", 0.1)
    monkeypatch.setattr(reply_reader, "LOOK", 0.1)
    monkeypatch.setattr(retry_writes, "LONGEST_WAIT", 0.2)


def one_awaited(shops: Shops, silent: SilentBehind, well: ClassServer) -> tuple[Shop, int]:
    """Return a shop with an email whose late reply a thread waits for, and the email's id."""
    shop = shops.open(**two_routes(silent, well), OUTBOX_SLOTS=1)
    write(shop, "bad", 1)
    email = shop.tables.email
    [row] = shop.rows(email, email.c.tag == "bad")
    with workers(shop, 1):
        have_the_process_go_on(shop, silent)
    assert awaited() == 1
    return shop, row.id


@pytest.mark.long
@pytest.mark.parametrize("lease", ["renewed", "lost"])
def test_a_reply_whose_row_fails_is_kept_and_its_thread_ends(
    lease: str, well: ClassServer, shops: Shops
) -> None:
    """The thread waited for ever, and with it a `drain`, and each process that was to end."""
    with silence() as silent:
        shop, email_id = one_awaited(shops, silent, well)
        never = f"OLD.id = {email_id} AND NEW.status = 'sent'"
        code = CODES[shop.engine.dialect.name]
        with refusing(shop.engine, "outbox_email", never, code=code):
            if lease == "lost":
                with shop.engine.begin() as connection:
                    connection.execute(shop.tables.lease.delete())
            silent.released.set()
            wait_until(lambda: not awaited(), DEADLINE, "the thread to end")
            assert statuses(shop, "bad") == {"sending": 1}
        until(shop, "bad", {"sent": 1})
        wait_until(lambda: not shop.rows(shop.tables.lease), DEADLINE, "the batch to end")
    assert shop.email_row(email_id).unknown_count == 0


@pytest.mark.long
def test_a_reply_is_recorded_although_the_next_step_fails(
    well: ClassServer, shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No database raises such an error just there: this is a double."""

    def fail(_: ServerChoice) -> None:
        raise RuntimeError

    monkeypatch.setattr(ServerChoice, "watch_anew", fail)
    with silence() as silent:
        shop, email_id = one_awaited(shops, silent, well)
        silent.released.set()
        wait_until(lambda: not awaited(), DEADLINE, "the thread to end")
    assert statuses(shop, "bad") == {"sent": 1}
    assert shop.email_row(email_id).unknown_count == 0
