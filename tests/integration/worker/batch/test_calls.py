"""What it costs a worker's own processor to send: it must not creep up."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import pytest

import outbox
from outbox.worker.drain import drain
from tests.support.servers.smtp.smtp_sink import SmtpSink
from tests.support.shop.shop import Shops, addresses, message

pytestmark = pytest.mark.over_and_over

OURS = str(Path(outbox.__file__).parent)
FIRST, EMAILS = 400, 1000
MOST = 96.0
"""Calls of the outbox's own functions an email, with the default window and batch: there were 93.4.
From Python 3.12 on a comprehension is no call, so there are fewer."""


@pytest.mark.long
@pytest.mark.one_database("postgresql")
def test_a_drain_makes_no_more_calls_an_email(shops: Shops, smtp_sink: SmtpSink) -> None:
    shop = shops.open(MAIL_PORT=smtp_sink.port)
    # It stands still, as what is asked by time is asked more often on a slow machine.
    shop.runtime.clock = float
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.startswith(OURS)

    for number in (FIRST, EMAILS):  # the first ones have the statements compiled
        with shop.session() as session:
            emails = (message(address) for address in addresses(number))
            shop.outbox.enqueue_many(emails, session=session)
            session.commit()
        calls = 0
        sys.setprofile(count)  # of this thread alone
        try:
            drain(shop.runtime)
        finally:
            sys.setprofile(None)
    assert smtp_sink.accepted() == FIRST + EMAILS
    print(f"{calls / EMAILS:.1f} calls an email")
    assert 0 < calls <= EMAILS * MOST
