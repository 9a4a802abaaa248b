"""The servers that measure tell the truth: of when an email came, and of how far away they are."""

from __future__ import annotations

import smtplib
import socket
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.support.servers.delay import Delay
from tests.support.servers.smtp.recorder import Recorder
from tests.support.waiting import wait_until

ONE_WAY = 0.03
_BROKEN = (ConnectionError, smtplib.SMTPServerDisconnected)


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """Answers for two emails."""
    with Recorder(answers_for=2) as server:
        yield server


def _send(client: smtplib.SMTP, *to: str) -> None:
    client.sendmail("shop@shop.example", to, b"Subject: hello\r\n\r\n.\r\n..\r\nbye\r\n")


def test_a_recorder_stamps_each_recipient_while_its_client_waits(recorder: Recorder) -> None:
    before = time.monotonic()
    with smtplib.SMTP(recorder.host, recorder.port) as client:
        _send(client, "a@x.example", "b@x.example")
        between = time.monotonic()
        _send(client, "a@x.example")
    first, other, second = recorder.stamps()
    assert [first.recipient, other.recipient] == ["a@x.example", "b@x.example"]
    # Stamps are rounded to microseconds.
    assert before - 1e-6 < first.at == other.at < between + 1e-6 < second.at + 2e-6
    assert recorder.at("a@x.example") == first.at
    assert recorder.at("nobody@x.example") == 0.0
    assert recorder.copies() == {"a@x.example": 2, "b@x.example": 1}


def test_a_recorder_that_stops_answering_still_stamps_and_a_kill_loses_no_stamp(
    recorder: Recorder,
) -> None:
    with smtplib.SMTP(recorder.host, recorder.port) as client:
        _send(client, "a@x.example")
        _send(client, "b@x.example")
        client.mail("shop@shop.example")
        client.rcpt("c@x.example")
        client.docmd("DATA")
        client.send(b"bye\r\n.\r\n")
        wait_until(lambda: len(recorder.stamps()) == 3, 10, "the third email's stamp")
        recorder.kill_9()
        with pytest.raises(_BROKEN):
            client.getreply()
    assert list(recorder.copies()) == ["a@x.example", "b@x.example", "c@x.example"]


@pytest.mark.long
def test_a_distant_server_answers_a_round_trip_later_and_takes_much_at_once(
    recorder: Recorder,
) -> None:
    with Delay(recorder.port, ONE_WAY) as distant:
        started = time.monotonic()
        with smtplib.SMTP(distant.host, distant.port) as client:
            assert time.monotonic() - started >= 4 * ONE_WAY, "the handshake and the greeting"
            asked = time.monotonic()
            client.noop()
            answered = time.monotonic()
            client.send(b"NOOP\r\n" * 1000)
            replies = [client.getreply()[0] for _ in range(1000)]
            assert answered - asked >= 2 * ONE_WAY
            assert replies == [250] * 1000
            assert time.monotonic() - answered < 100 * 2 * ONE_WAY, "not one trip for each"


@pytest.mark.long
def test_a_distant_server_that_comes_near_answers_at_once(recorder: Recorder) -> None:
    with Delay(recorder.port, 3600) as distant:
        distant.come_near()
        with smtplib.SMTP(distant.host, distant.port, timeout=60) as client:
            assert client.noop()[0] == 250


@pytest.mark.long
def test_what_is_under_way_to_a_server_that_comes_near_arrives_at_once(recorder: Recorder) -> None:
    with Delay(recorder.port, 3600) as distant:
        socket.create_connection((distant.host, distant.port)).close()
        with socket.create_connection((distant.host, distant.port), timeout=60) as waiting:
            waiting.sendall(b"NOOP\r\n")
            proxy = psutil.Process(distant.pid)
            ours = waiting.getsockname()
            wait_until(lambda: ours in _clients(proxy), 60, "the proxy to have the connection")
            distant.come_near()
            replies = waiting.makefile("rb")
            assert replies.readline().startswith(b"220 ")
            assert replies.readline().startswith(b"250 ")


def _clients(proxy: psutil.Process) -> list[tuple[str, int]]:
    links = proxy.net_connections("tcp")
    return [(link.raddr.ip, link.raddr.port) for link in links if link.raddr]


@pytest.mark.long
def test_a_distant_server_that_is_down_takes_the_connection_down(recorder: Recorder) -> None:
    recorder.stop()
    with Delay(recorder.port, ONE_WAY) as distant, pytest.raises(_BROKEN):
        smtplib.SMTP(distant.host, distant.port, timeout=10)
