"""A whole system over the drivers that the other systems do not use."""

from __future__ import annotations

import pytest

from tests.support.system.app import Order, db, outbox
from tests.support.system.system import System

pytestmark = [
    pytest.mark.long,
    pytest.mark.one_broker("redis"),
    pytest.mark.drivers("psycopg2", "mysqldb"),
]


def test_an_order_and_a_newsletter_are_sent_once_by_processes_that_were_forked(
    system: System,
) -> None:
    db.session.add(Order(customer="Ada"))
    system.newsletter(300)  # it commits, with the order
    db.session.add(Order(customer="Bob"))
    system.reset("bob@example.com")
    db.session.add(Order(customer="Eve"))
    outbox.cancel(tag="nothing has this tag")
    db.session.rollback()
    system.beat()
    system.worker()
    system.wait_sent(301)
    assert set(system.catcher.copies().values()) == {1}
    assert sorted(order.customer for order in db.session.query(Order)) == ["Ada", "Bob"]
    assert system.counters() == {}
