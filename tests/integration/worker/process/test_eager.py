"""With `task_always_eager` no worker gets a task, so the process that commits an email sends it."""

from __future__ import annotations

import warnings

import pytest
from celery import Celery

from outbox.celery_config import configure
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops, addresses, newsletter
from tests.support.waiting import wait_until

pytestmark = pytest.mark.databases("sqlite")

EMAILS = 40


def eager(shop: Shop) -> Shop:
    celery = Celery("shop", broker="redis://127.0.0.1:1/0", set_as_current=False)
    celery.conf.task_always_eager = True
    configure(celery, shop.app)
    return shop


@pytest.mark.long
def test_what_is_committed_is_sent_without_a_broker(shops: Shops, catcher: Catcher) -> None:
    shop = eager(shops.open(MAIL_PORT=catcher.port, OUTBOX_BATCH=5, OUTBOX_WINDOW=5))
    readers = addresses(EMAILS)
    with warnings.catch_warnings(), shop.session() as session:
        warnings.simplefilter("error")
        shop.outbox.enqueue_many(newsletter(), readers, session=session)
        session.commit()
        wait_until(lambda: set(shop.statuses()) == {"sent"}, 30, lambda: f"all: {shop.statuses()}")
    assert sorted(recipient for recipient, _ in catcher.copies().elements()) == readers
    assert "task_always_eager is on" in runner(shop)("check").output


def test_tasks_that_are_called_by_hand_send_too(shops: Shops, catcher: Catcher) -> None:
    shop = eager(shops.open(MAIL_PORT=catcher.port, OUTBOX_NUDGE=False))
    celery: Celery = shop.app.extensions["celery"]
    email = shop.enqueue()
    celery.tasks["outbox.sweep"].delay()
    assert shop.status(email.id) == "sent"
    email = shop.enqueue()
    [made] = shop.claim()
    celery.tasks["outbox.send"].delay(str(made.token))
    assert shop.status(email.id) == "sent"


def test_a_test_that_sends_nothing_sends_nothing(shops: Shops, catcher: Catcher) -> None:
    shop = eager(shops.open(MAIL_PORT=catcher.port, TESTING=True, OUTBOX_NUDGE=False))
    email = shop.enqueue()
    shop.app.extensions["celery"].tasks["outbox.sweep"].delay()
    assert (shop.status(email.id), catcher.sessions) == ("pending", 0)
