"""A reply has one deadline, whatever comes drop by drop, and whoever is asked meanwhile."""

from __future__ import annotations

import errno

import pytest

from outbox.domain.delivery.reply_table import Event
from outbox.smtp.reply_reader import LOOK, NoReply, ReplyReader
from tests.unit.smtp.test_reply_reader import Wire


def test_a_drip_does_not_move_the_deadline_and_each_wait_gets_only_what_is_left() -> None:
    waits: list[float | None] = []
    now = iter(range(100))

    class Dripping(Wire):
        def recv(self, size: int, flags: int = 0) -> bytes:
            waits.append(self.gettimeout())
            return super().recv(size, flags)

    with Dripping(*[b"250-line\r\n"] * 50) as wire:
        wire.settimeout(300.0)
        reader = ReplyReader(wire, clock=lambda: float(next(now)))
        with pytest.raises(NoReply) as raised:
            reader.read(5.0)
        assert wire.gettimeout() == 300.0, "what is written next has its own time"

    assert raised.value.event is Event.TIMEOUT
    assert waits == [5.0, 3.0, 2.0, 1.0]


def test_a_deadline_behind_the_sockets_own_time_out_holds() -> None:
    class Late(Wire):
        looks = 0

        def recv(self, size: int, flags: int = 0) -> bytes:
            self.looks += 1
            if self.looks < 3:
                raise TimeoutError("timed out")
            return super().recv(size, flags)

    with Late(b"250 ok\r\n") as wire:
        assert ReplyReader(wire).read(600.0) == (250, b"ok")
        assert wire.looks == 3


class Hung(Wire):
    """One whose octets come while others are asked, which outlasts the deadline."""

    now = 0.0

    def recv(self, size: int, flags: int = 0) -> bytes:
        if not self.now:
            raise TimeoutError("timed out")
        return super().recv(size, flags)

    def asks(self) -> bool:
        self.now += 600.0
        return True


def test_octets_that_came_while_others_were_asked_are_read() -> None:
    with Hung(b"250 ok\r\n") as wire:
        assert ReplyReader(wire, clock=lambda: wire.now).read(300.0, wire.asks) == (250, b"ok")


def test_a_drip_gets_no_more_time_by_it() -> None:
    with Hung(*[b"250-ok\r\n"] * 3) as wire:
        with pytest.raises(NoReply) as raised:
            ReplyReader(wire, clock=lambda: wire.now).read(300.0, wire.asks)
        assert len(wire.pieces) == 2

    assert raised.value.event is Event.TIMEOUT


class Stopped(Wire):
    """One that is read by a process which SIGSTOP stops for a while, again and again."""

    now = 0.0
    seconds = 22.0
    replies = True

    def recv(self, size: int, flags: int = 0) -> bytes:
        self.now += self.seconds
        self.replies = not self.replies
        if not self.replies:  # as where gevent finds the time-out before the octets
            raise TimeoutError("timed out")
        return super().recv(size, flags)


@pytest.mark.parametrize(("seconds", "asked"), [(22.0, 0), (LOOK, 3)], ids=["stopped", "silent"])
def test_what_the_process_itself_stood_still_is_not_the_servers_silence(
    seconds: float, asked: int
) -> None:
    with Stopped(b"250-ok\r\n", b"250 ok\r\n") as wire:
        wire.seconds, asks = seconds, list[float]()

        def goes_on() -> bool:
            asks.append(wire.now)
            return True

        ReplyReader(wire, clock=lambda: wire.now).read(300.0, goes_on)
        assert len(asks) == asked


def test_a_connection_that_tcp_gave_up_is_not_asked_again() -> None:
    class Dead(Wire):
        def recv(self, size: int, flags: int = 0) -> bytes:
            raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")

    with Dead() as wire, pytest.raises(NoReply) as raised:
        ReplyReader(wire).read(600.0)

    assert raised.value.event is Event.TIMEOUT
