"""How a case's email is sent: as ever, past its lease, or to a server that says nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from outbox.smtp import reply_reader
from outbox.worker.batch.send_batch import send_batch
from outbox.worker.batch.todo import SLOW
from outbox.worker.drain import drain
from tests.support.servers.smtp.scripted import stall
from tests.support.servers.smtp.stateful import Says
from tests.support.verdicts.case import LEASE

if TYPE_CHECKING:
    from tests.support.servers.smtp.dialogue import Dialogue
    from tests.support.verdicts.play import Stage


def send(stage: Stage) -> None:
    """Send what the case is about, as a worker does."""
    if stage.case.lapses:
        _let_the_lease_lapse(stage)
    elif stage.case.silent_at:
        _let_the_server_be_silent(stage)
    else:
        drain(stage.shop.runtime)


def _let_the_server_be_silent(stage: Stage) -> None:
    """Have the worker's clock stand past its patience while the server says nothing."""
    late: list[float] = []
    stage.shop.runtime.clock = lambda: time.monotonic() + sum(late)

    def silence(dialogue: Dialogue) -> None:
        late.append(SLOW + 1.0)
        stall(dialogue)

    stage.server.unused[stage.case.silent_at] = silence
    [made] = stage.shop.claim()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reply_reader, "LOOK", 0.05)
        send_batch(stage.shop.runtime, made.token)


def _let_the_lease_lapse(stage: Stage) -> None:
    """Have the worker's clock stand past its lease once the server has answered this command."""
    late: list[float] = []
    stage.shop.runtime.clock = lambda: time.monotonic() + sum(late)
    beyond = LEASE + 1.0  # and well before OUTBOX_TRANSACTION_TIMEOUT, which is a row of its own
    lapse = Says(reply="250 2.1.5 ok", then=lambda _: late.append(beyond))
    stage.server.unused[stage.case.lapses] = lapse
    [made] = stage.shop.claim()
    send_batch(stage.shop.runtime, made.token)
