"""The same client against servers that others wrote: Postfix's smtp-sink and aiosmtpd."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from aiosmtpd.controller import Controller

from outbox.domain.delivery.transaction import Envelope, Phase, Verdict
from outbox.smtp.connection import Connection
from tests.support.servers.ports import accepts, free_port
from tests.support.servers.smtp.client import envelope, lease_held, server_settings
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SINK = shutil.which("smtp-sink", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
CONTENT = b"Subject: dots\r\n\r\n.\r\n..two\r\n\xe2\x82\xac 5\r\n.end\r\n"


class Greylisting:
    """Puts off who is new, refuses who is unknown, keeps what it accepts."""

    def __init__(self) -> None:
        self.contents: list[bytes] = []

    async def handle_RCPT(  # noqa: N802  # aiosmtpd's name
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        if address.startswith("new"):
            return "450 4.7.1 Greylisted, try again in 5 minutes"
        if address.startswith("unknown"):
            return "550 5.1.1 no such user"
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 ok"

    async def handle_DATA(  # noqa: N802  # aiosmtpd's name
        self, server: Any, session: Any, envelope: Any
    ) -> str:
        self.contents.append(envelope.original_content)
        return "250 2.0.0 accepted"


@pytest.fixture
def greylisting() -> Iterator[tuple[int, Greylisting]]:
    handler = Greylisting()
    controller = Controller(handler, hostname="127.0.0.1", port=free_port())
    controller.start()
    yield controller.port, handler
    controller.stop()


def test_aiosmtpd_gives_each_recipient_its_own_verdict_and_the_content_as_it_was(
    greylisting: tuple[int, Greylisting],
) -> None:
    port, handler = greylisting
    mail = Envelope(
        sender="shop@example.org",
        recipients=("a@example.org", "new@example.org", "unknown@example.org"),
        eightbit=True,
    )
    connection = Connection(server_settings(port))
    result = connection.send(mail, CONTENT, lease_held)
    refused = connection.send(envelope("new@example.org"), CONTENT, lease_held)
    again = connection.send(envelope(), CONTENT.replace(b"\xe2\x82\xac", b"EUR"), lease_held)
    connection.close()

    assert (result.verdict, result.retry_after) == (Verdict.SENT, 300.0)
    assert [r.verdict for r in result.recipients] == [Verdict.SENT, Verdict.RETRY, Verdict.FAIL]
    assert (refused.verdict, refused.phase) == (Verdict.RETRY, Phase.RCPT)
    assert again.verdict is Verdict.SENT
    assert handler.contents[0] == CONTENT


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[int]:
    if SINK is None:
        pytest.skip("Postfix's smtp-sink is not installed")
    port = free_port()
    # As root it wants a user to become; otherwise it may not change to one.
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    process = subprocess.Popen([SINK, *user, f"127.0.0.1:{port}", "100"], cwd=tmp_path)
    try:
        wait_until(lambda: accepts(port), 10, "smtp-sink to listen")
        yield port
    finally:
        process.terminate()
        process.wait(10)


def test_smtp_sink_takes_many_emails_over_one_connection(sink: int) -> None:
    connection = Connection(server_settings(sink))
    results = [
        connection.send(envelope(), b"Subject: x\r\n\r\nx\r\n", lease_held) for _ in range(100)
    ]
    connection.close()

    assert {result.verdict for result in results} == {Verdict.SENT}
