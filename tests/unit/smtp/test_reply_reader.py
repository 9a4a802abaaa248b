"""Replies from octets: whole, bounded, clean, or a typed reason why not."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.delivery.reply_table import Event
from outbox.domain.delivery.transaction import Reply
from outbox.smtp.reply_reader import MAX_AHEAD, MAX_TEXT, NoReply, ReplyReader, clean, parse_reply

if TYPE_CHECKING:
    from collections.abc import Iterator


class Wire(socket.socket):
    """A socket whose `recv` gives what a test laid ready, piece by piece, and then the end."""

    def __init__(self, *pieces: bytes) -> None:
        super().__init__()
        self.pieces = list(pieces)

    def recv(self, size: int, flags: int = 0) -> bytes:
        piece = self.pieces.pop(0) if self.pieces else b""
        if len(piece) > size:
            self.pieces.insert(0, piece[size:])
        return piece[:size]


def read(*pieces: bytes) -> tuple[int, bytes]:
    with Wire(*pieces) as wire:
        return ReplyReader(wire).read(5.0)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ((b"250 ok\r\n",), (250, b"ok")),
        ((b"250\r\n",), (250, b"")),
        ((b"250 \r\n",), (250, b"")),
        ((b"250 bare line feed\n",), (250, b"bare line feed")),
        ((b"250-one\r\n250-two\r\n250 three\r\n",), (250, b"one\ntwo\nthree")),
        ((b"25", b"0-one\r", b"\n250", b" two\r\n"), (250, b"one\ntwo")),
        ((b"250-one\r\n", b"250 two\r\n"), (250, b"one\ntwo")),
    ],
)
def test_a_reply_is_read_whole_however_its_octets_arrive(
    pieces: tuple[bytes, ...], expected: tuple[int, bytes]
) -> None:
    assert read(*pieces) == expected


@pytest.mark.parametrize(
    ("octets", "event"),
    [
        (b"", Event.CLOSED),
        (b"250 no line end", Event.CLOSED),
        (b"250-more to come\r\n", Event.CLOSED),
        (b"hello\r\n", Event.GARBAGE),
        (b"\r\n", Event.GARBAGE),
        (b"2500 ok\r\n", Event.GARBAGE),
        (b"150 ok\r\n", Event.GARBAGE),
        (b"650 ok\r\n", Event.GARBAGE),
        (b"\xb2\xb5\xb0 ok\r\n", Event.GARBAGE),
        (b"250-one\r\n550 two\r\n", Event.GARBAGE),
        (b"250-one\r\nhello\r\n", Event.GARBAGE),
        (b"250 " + b"x" * 2045 + b"\r\n", Event.GARBAGE),
        (b"x" * 100_000, Event.GARBAGE),
        (b"250-x\r\n" * 100 + b"250 x\r\n", Event.GARBAGE),
    ],
)
def test_what_is_no_reply_is_told_apart(octets: bytes, event: Event) -> None:
    with pytest.raises(NoReply) as raised:
        read(octets)

    assert raised.value.event is event
    assert raised.value.reply.code == 0
    assert raised.value.reply.text


def test_the_longest_line_and_the_most_lines_are_still_a_reply() -> None:
    assert read(b"250 " + b"x" * 2044 + b"\r\n")[0] == 250
    assert read(b"250-x\r\n" * 99 + b"250 x\r\n")[0] == 250


def test_octets_after_a_reply_are_pending_and_are_the_next_reply() -> None:
    with Wire(b"250 one\r\n550 two\r\n") as wire:
        reader = ReplyReader(wire)
        assert reader.read(5.0) == (250, b"one")
        assert reader.pending
        assert reader.read(5.0) == (550, b"two")
        assert not reader.pending


def ahead(octets: bytes) -> ReplyReader:
    """A reader that took these octets together with the reply before them."""
    wire = Wire(b"250 before\r\n" + octets)
    reader = ReplyReader(wire)
    assert reader.read(5.0) == (250, b"before")
    return reader


@pytest.mark.parametrize("rcpt", [b"250 ok", b"251 will forward", b"250 ", b"252 2.1.5 \xff"])
def test_good_replies_up_to_the_354_are_taken_at_one_look(rcpt: bytes) -> None:
    reader = ahead(b"250 ok\r\n" + rcpt + b"\r\n354 go on\r\n")
    with reader.sock:
        assert reader.agreed(2)
        assert not reader.pending


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"250 ok\r\n354 go on\r\n",
        b"250 ok\r\n250 ok\r\n",
        b"250 ok\r\n250 ok\r\n250 ok\r\n354 go on\r\n",
        b"250 ok\r\n550 no\r\n354 go on\r\n",
        b"450 no\r\n250 ok\r\n354 go on\r\n",
        b"250 ok\r\n354 ok\r\n354 go on\r\n",
        b"250 ok\r\n250 ok\r\n554 no\r\n",
        b"250 ok\r\n250 ok\r\n250 ok\r\n",
        b"250 ok\r\n250 ok\r\n354 go on\r\n250 too soon\r\n",
        b"250 ok\r\n250 ok\r\n354 go on\r\n2",
        b"250 ok\r\n250 ok\r\n354 go on\r",
        b"250-ok\r\n250 ok\r\n354 go on\r\n",
        b"250 ok\n250 ok\n354 go on\n",
        b"250 o\rk\r\n250 ok\r\n354 go on\r\n",
        b"2500 ok\r\n250 ok\r\n354 go on\r\n",
    ],
)
def test_of_any_others_none_is_taken(octets: bytes) -> None:
    reader = ahead(octets)
    with reader.sock:
        assert not reader.agreed(2)
        assert reader.pending == bool(octets)


@pytest.fixture
def reader() -> Iterator[tuple[ReplyReader, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ReplyReader(ours), theirs


def test_a_silent_server_is_a_time_out(reader: tuple[ReplyReader, socket.socket]) -> None:
    with pytest.raises(NoReply) as raised:
        reader[0].read(0.01)

    assert raised.value.event is Event.TIMEOUT


@pytest.mark.parametrize(
    ("octets", "is_over"),
    [
        (b"", False),
        (b"250 ok\r\n354 go on\r\n", False),
        (b"250 ok\r\n421 timeout\r\n", True),
        (b"421-4.4.2 timeout\r\n421 4.4.2 closing\r\n", True),
        (b"250 ok\r\n421 time", True),
        (b"250 421 items\r\n", False),
        (b"421 not the last\r\n250 ok\r\n", False),
    ],
)
def test_a_look_tells_an_end_without_waiting_and_keeps_what_came(
    reader: tuple[ReplyReader, socket.socket], octets: bytes, is_over: bool
) -> None:
    ours, theirs = reader
    ours.sock.settimeout(7.0)
    theirs.sendall(octets)
    assert ours.has_ended() is is_over
    assert ours.sock.gettimeout() == 7.0
    theirs.close()
    assert ours.has_ended()
    if octets.startswith(b"250 "):
        assert ours.read(5.0)[0] == 250


def test_a_look_at_a_server_that_talks_without_end_ends() -> None:
    with Wire(*[b"x" * 4096] * 100) as wire:
        assert not ReplyReader(wire).has_ended()
        assert len(wire.pieces) >= 100 - MAX_AHEAD // 4096 - 1


@given(st.lists(st.binary(max_size=300), max_size=8))
def test_any_octets_are_a_reply_or_a_typed_reason(pieces: list[bytes]) -> None:
    try:
        code, lines = read(*(piece for piece in pieces if piece))
    except NoReply as none:
        reply = none.reply
    else:
        reply = parse_reply(code, lines)
    assert reply.code == 0 or 200 <= reply.code <= 599
    assert_clean(reply)


@given(st.sampled_from(["250", "421", "550"]), st.lists(st.binary(max_size=900), max_size=5))
def test_any_text_of_a_reply_comes_out_clean(code: str, texts: list[bytes]) -> None:
    lines = [text.replace(b"\n", b" ") for text in texts]
    octets = b"".join(code.encode() + b"-" + line + b"\r\n" for line in lines)
    assert_clean(parse_reply(*read(octets + code.encode() + b" end\r\n")))


def assert_clean(reply: Reply) -> None:
    assert reply.text.isprintable()
    assert len(reply.text) <= MAX_TEXT
    reply.text.encode()


@pytest.mark.parametrize(
    ("lines", "enhanced", "text"),
    [
        (b"2.0.0 Ok: queued as 4F2", "2.0.0", "Ok: queued as 4F2"),
        (b"4.7.0 Try\n4.7.0 again", "4.7.0", "Try again"),
        (b"5.1.1", "5.1.1", ""),
        (b"#5.1.0 Address rejected.", "5.1.0", "Address rejected."),
        (b"#5.1.0 Address\n#5.1.0 rejected", "5.1.0", "Address rejected"),
        (b"# 5.1.0 is a number", "", "# 5.1.0 is a number"),
        (b"5.1.1\n5.1.1 nobody", "5.1.1", "nobody"),
        (b"4.123.456 deep", "4.123.456", "deep"),
        (b"3.1.1 no such class", "", "3.1.1 no such class"),
        (b"4.7.1234 too long", "", "4.7.1234 too long"),
        (b"127.0.0.1 is listed", "", "127.0.0.1 is listed"),
        (b"", "", ""),
    ],
)
def test_the_enhanced_code_stands_apart_from_the_text(
    lines: bytes, enhanced: str, text: str
) -> None:
    assert parse_reply(250, lines) == Reply(code=250, enhanced=enhanced, text=text)


def test_a_text_is_cleaned_of_what_databases_and_terminals_trip_over() -> None:
    assert parse_reply(550, b"a\x00b\x1b[31mc\xffd\tend").text == "a b [31mc?d end"
    assert clean("\u202eevil\u2028line\x85") == "evil line"
    assert parse_reply(550, "gr\xfc\xdfe".encode()).text == "gr\xfc\xdfe"
    assert len(clean("x" * 2000)) == 500
