"""Under `TESTING` or `MAIL_SUPPRESS_SEND` emails are written, and nothing leaves by SMTP."""

from __future__ import annotations

from typing import Any

import pytest
from flask import current_app

from outbox.worker.batch.send_batch import send_batch
from outbox.worker.drain import drain
from outbox.worker.tasks import sweep_and_send
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shell import parsed, runner
from tests.support.shop.shop import Shop, Shops
from tests.support.shop.steps.motion import Motion

LINE = "MAIL_SUPPRESS_SEND is on (TESTING turns it on by default): nothing is sent, and emails wait"
SUPPRESSED: list[dict[str, Any]] = [{"TESTING": True}, {"MAIL_SUPPRESS_SEND": True}]

pytestmark = pytest.mark.databases("sqlite")


@pytest.fixture(params=SUPPRESSED, ids=lambda config: next(iter(config)))
def shop(request: pytest.FixtureRequest, shops: Shops, catcher: Catcher) -> Shop:
    return shops.open(MAIL_PORT=catcher.port, **request.param)


def test_neither_drain_nor_a_worker_speaks_smtp(shop: Shop, catcher: Catcher) -> None:
    email = shop.enqueue()
    assert drain(shop.runtime) == 0
    motion = Motion(shop=shop)
    assert motion.beat() == 0
    sweep_and_send(shop.runtime)
    assert motion.claims == []
    assert (shop.status(email.id), shop.email_row(email.id).attempts) == ("pending", 0)
    assert shop.count(shop.tables.lease) == 0
    assert catcher.sessions == 0


def test_what_another_process_claimed_goes_back_uncharged(shop: Shop, catcher: Catcher) -> None:
    email = shop.enqueue()
    [made] = shop.claim()
    assert not send_batch(shop.runtime, made.token).is_worth_a_sweep
    row = shop.email_row(email.id)
    assert (row.status, row.attempts, row.crashes) == ("pending", 0, 0)
    assert shop.count(shop.tables.lease) == 0
    assert catcher.sessions == 0


@pytest.mark.long
def test_the_commands_say_why_nothing_is_sent(shop: Shop) -> None:
    shop.enqueue()
    run = runner(shop)
    assert LINE in run("drain", code=1).output
    assert LINE in run("sweep").output
    assert LINE in run("stats").output
    assert LINE in run("health").output
    assert LINE in runner_with_any_code(shop, "check")
    assert parsed(run("stats", "--json"))["suppressed"] is True


def runner_with_any_code(shop: Shop, *words: str) -> str:
    return shop.app.test_cli_runner().invoke(args=["outbox", *words]).output


def test_an_empty_drain_is_no_failure(shop: Shop) -> None:
    assert LINE in runner(shop)("drain").output


@pytest.mark.matrix
@pytest.mark.parametrize("way", ["config", "entry"])
def test_what_waited_goes_out_once_it_may(shop: Shop, catcher: Catcher, way: str) -> None:
    email = shop.enqueue()
    assert drain(shop.runtime) == 0
    if way == "config":
        shop.app.config["MAIL_SUPPRESS_SEND"] = False
    else:
        with shop.app.app_context():
            current_app.extensions["mail"].suppress = False
    assert drain(shop.runtime) == 1
    assert shop.status(email.id) == "sent"
    assert catcher.sessions == 1


def test_an_explicit_word_sends_under_testing(shops: Shops, catcher: Catcher) -> None:
    shop = shops.open(MAIL_PORT=catcher.port, TESTING=True, MAIL_SUPPRESS_SEND=False)
    email = shop.enqueue()
    assert drain(shop.runtime) == 1
    assert shop.status(email.id) == "sent"
    assert LINE not in runner(shop)("stats").output


@pytest.mark.parametrize("config", [*SUPPRESSED, {}], ids=str)
def test_it_may_be_switched_on_after_the_outbox_was_set_up(
    shops: Shops, catcher: Catcher, config: dict[str, Any]
) -> None:
    shop = shops.open(MAIL_PORT=catcher.port)
    shop.app.config.update(config)
    if not config:
        shop.app.testing = True
    shop.enqueue()
    assert drain(shop.runtime) == 0
    assert catcher.sessions == 0
