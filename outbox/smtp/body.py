"""Writes an email's content, and tells afterwards whether the server may have all of it."""

from __future__ import annotations

import select
import ssl
import time
from contextlib import suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from ..domain.delivery.reply_table import Event
from ..domain.delivery.transaction import Phase
from ..domain.mime.line_endings import dot_stuff
from .reply_reader import LOOK, STOOD_STILL, NoReply

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    Clock = Callable[[], float]
    GoesOn = Callable[[], bool]

BLOCK = 64 * 1024
"""Octets of one write. Each block has its own deadline (RFC 5321 §4.5.3.2.5)."""

RECORD = 16 * 1024
"""The same under TLS, for a content of more than one block: what one record of TLS holds."""

_TERMINATOR = len(b"\r\n.\r\n")


class Torn(NoReply):
    """The writing ended early. `phase` BODY proves that the final dot did not leave."""

    def __init__(self, event: Event, text: str, phase: Phase) -> None:
        super().__init__(event, text)
        self.phase = phase


def stuffed(content: bytes) -> bytes:
    """Return the octets on the wire: dot-stuffed, with the final dot (RFC 5321 §4.1.1.4)."""
    end = b".\r\n" if content.endswith(b"\r\n") else b"\r\n.\r\n"
    return dot_stuff(content) + end


def write_body(
    sock: socket.socket,
    wire: bytes,
    behind: bytes,
    fence: Callable[[], bool],
    seconds: float,
    seconds_left: Callable[[], float] = lambda: inf,
    progress: Callable[[], object] = lambda: None,
    goes_on: GoesOn = lambda: True,
    clock: Clock = time.monotonic,
) -> int:
    """Write all of `wire`, then `behind`; return how many octets of `behind` have left.

    Each block of `wire` has its `seconds`. `seconds_left` returns those that remain for the
    transaction; `progress` is called for each block. `goes_on` is called every `LOOK` seconds while
    the server takes no octets: False ends the wait.

    Raises Torn where the writing ended before the final dot was handed over; the caller must close.
    What ends it behind the dot is not about this email: the reply to the dot tells. The next email
    is not worth a long wait, as that reply may have come.

    `fence` is asked before the first octet and before each write that holds some of the final dot.
    On plain TCP the octets that the kernel took are counted, so an error proves that the dot did
    not leave whole. Under TLS a failed write cannot be counted: if it held some of the dot, the
    server may have it all.
    """
    counted = not isinstance(sock, ssl.SSLSocket)
    octets: bytes | memoryview = wire + behind if behind else wire
    size, sent = len(wire), 0
    if len(octets) > BLOCK:  # so that its blocks are not copied
        octets = memoryview(octets)
    # The kernel has room for the first block. To set a time-out is a system call, and the wait for
    # the reply has this one.
    is_short = counted and len(octets) <= BLOCK
    timeout = LOOK if is_short and seconds > LOOK else seconds
    if sock.gettimeout() != timeout:
        sock.settimeout(timeout)
    step = BLOCK if counted or len(octets) <= BLOCK else RECORD
    while sent < len(octets):
        block = octets[sent : sent + step]
        holds_dot = sent < size < sent + len(block) + _TERMINATOR
        try:
            if sent:
                progress()
                most = max(0.0, min(seconds, seconds_left())) if sent < size else LOOK
                _wait_writable(sock, most, goes_on, clock)
            # Asked as late as possible: after it only the write itself takes time.
            if (holds_dot or not sent) and not fence():
                raise Torn(Event.LEASE, "the lease was lost", Phase.BODY)
            if counted or holds_dot or sent >= size:
                sent += sock.send(block)
            else:
                write, most = partial(sock.send, block), max(0.0, min(seconds, seconds_left()))
                sent += _written_whole(sock, write, most, goes_on, clock)
        except Torn:
            raise
        except OSError as error:
            if sent >= size:
                break
            phase = Phase.BODY if counted or not holds_dot else Phase.DOT
            raise _torn(error, phase, seconds_left()) from error
    return sent - size


def _torn(error: OSError, phase: Phase, seconds_left: float) -> Torn:
    """Return what a socket's error says of the content."""
    lost, is_too_long = NoReply.of(error), phase is Phase.BODY and seconds_left <= 0
    return Torn(Event.TOO_LONG if is_too_long else lost.event, lost.reply.text, phase)


def _written_whole(
    sock: socket.socket, write: Callable[[], int], seconds: float, goes_on: GoesOn, clock: Clock
) -> int:
    """Write a block under TLS: no write ends before all of it is written.

    The wait is ended as that of `_wait_writable`, which ends when there is room for an octet. After
    a time-out the same octets have to be written again: OpenSSL has the record.
    """
    before = sock.gettimeout()
    for look in _looks(seconds, goes_on, clock):
        sock.settimeout(look)
        with suppress(TimeoutError):
            written = write()
            break
    sock.settimeout(before)
    return written


def _wait_writable(sock: socket.socket, seconds: float, goes_on: GoesOn, clock: Clock) -> None:
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    for look in _looks(seconds, goes_on, clock):
        if poll.poll(look * 1000):
            return


def _looks(seconds: float, goes_on: GoesOn, clock: Clock) -> Iterator[float]:
    """Yield how long to wait for the server at a time. Raises where its `seconds` are over.

    A look during which this process itself stood still tells nothing of the server, and does not
    count: the server may take octets now.
    """
    while True:
        look, began = min(seconds, LOOK), clock()
        yield look
        if clock() - began > look + STOOD_STILL:
            continue
        seconds -= LOOK
        if seconds <= 0:
            raise TimeoutError("the server takes no more octets")
        _ask(goes_on)


def _ask(goes_on: GoesOn) -> None:
    if not goes_on():
        raise Torn(Event.GIVEN_UP, "no octet is taken, and other emails wait", Phase.BODY)
