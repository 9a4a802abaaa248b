"""Counted octets: what a failed write proves about the final dot."""

from __future__ import annotations

import socket
from contextlib import suppress

import pytest

from outbox.domain.delivery.reply_table import Event
from outbox.domain.delivery.transaction import Phase
from outbox.smtp import body
from outbox.smtp.body import Torn, stuffed, write_body

WIRE = stuffed(b"Subject: x\r\n\r\nHello\r\n")


class Kernel(socket.socket):
    """Takes so many octets and then fails."""

    def __init__(self, room: int, at_once: int = 10_000) -> None:
        ours, self.peer = socket.socketpair()
        super().__init__(fileno=ours.detach())
        self.room, self.at_once, self.taken = room, at_once, b""

    def send(self, data: object, flags: int = 0) -> int:
        octets = bytes(data)[: min(self.room, self.at_once)]  # type: ignore[call-overload]
        if not octets:
            raise BrokenPipeError("gone")
        self.room -= len(octets)
        self.taken += octets
        return len(octets)

    def close(self) -> None:
        self.peer.close()
        super().close()


class Full(Kernel):
    """Has no room for more once it has taken these octets: it is not writable any more."""

    def send(self, data: object, flags: int = 0) -> int:
        taken = super().send(data, flags)
        if not self.room:
            self.setblocking(False)
            with suppress(BlockingIOError):
                while super(Kernel, self).send(bytes(65_536)):
                    pass
        return taken


def no() -> bool:
    return False


@pytest.mark.parametrize("room", [0, 1, len(WIRE) - 5, len(WIRE) - 1])
def test_on_plain_tcp_an_error_proves_that_the_dot_did_not_leave_whole(room: int) -> None:
    with Kernel(room) as kernel, pytest.raises(Torn) as raised:
        write_body(kernel, WIRE, b"", lambda: True, 5.0)

    assert (raised.value.phase, raised.value.event) == (Phase.BODY, Event.CLOSED)
    assert kernel.taken == WIRE[:room]


def test_partial_writes_go_on_where_the_last_one_ended() -> None:
    with Kernel(len(WIRE), at_once=3) as kernel:
        write_body(kernel, WIRE, b"", lambda: True, 5.0)

    assert kernel.taken == WIRE


def test_the_fence_is_asked_again_before_every_write_that_holds_some_of_the_dot() -> None:
    answers = iter([True, False])
    with Kernel(len(WIRE), at_once=len(WIRE) - 2) as kernel, pytest.raises(Torn) as raised:
        write_body(kernel, WIRE, b"", lambda: next(answers), 5.0)

    assert (raised.value.phase, raised.value.event) == (Phase.BODY, Event.LEASE)
    assert not kernel.taken.endswith(b"\r\n.\r\n")


@pytest.mark.parametrize("left", [0, 1, 9])
def test_once_the_dot_has_left_nothing_says_that_it_has_not(
    left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits long for the next email's commands either: the reply may have come."""
    monkeypatch.setattr(body, "LOOK", 0.01)
    monkeypatch.setattr(body, "BLOCK", len(WIRE) + left)
    with Full(len(WIRE) + left) as kernel:
        assert write_body(kernel, WIRE, b"MAIL FROM:", lambda: True, 5.0, goes_on=no) == left
    assert kernel.taken == WIRE + b"MAIL FROM:"[:left]


def test_before_that_the_wait_ends_where_other_emails_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "LOOK", 0.01)
    with Full(len(WIRE) - 1) as kernel, pytest.raises(Torn) as raised:
        write_body(kernel, WIRE, b"MAIL FROM:", lambda: True, 5.0, goes_on=no)
    assert (raised.value.phase, raised.value.event) == (Phase.BODY, Event.GIVEN_UP)


@pytest.mark.parametrize(
    ("content", "wire"),
    [
        (b".\r\n", b"..\r\n.\r\n"),
        (b"a\r\n.b\r\n", b"a\r\n..b\r\n.\r\n"),
        (b"no line end", b"no line end\r\n.\r\n"),
        (b"", b"\r\n.\r\n"),
    ],
)
def test_the_content_is_dot_stuffed_and_ends_with_the_dot(content: bytes, wire: bytes) -> None:
    assert stuffed(content) == wire
