"""Replies read from a socket: bounded in length and in time, whatever the server sends."""

from __future__ import annotations

import re
import smtplib
import ssl
import time
from functools import lru_cache
from typing import TYPE_CHECKING

from ..domain.delivery.halt_reason import UNVERIFIED
from ..domain.delivery.reply_table import Event
from ..domain.delivery.transaction import Reply

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    GoesOn = Callable[[], bool]

LOOK = 5.0
"""Seconds between two checks whether to keep on waiting for a reply."""

STOOD_STILL = 3.0
"""Seconds by which a wait ends too late where this process itself did not run."""

MAX_REPLY_LINE = 2048
"""Octets of one reply line; RFC 5321 §4.5.3.1.5 asks servers to stay within 512."""

MAX_LINES = 100
MAX_AHEAD = MAX_LINES * MAX_REPLY_LINE
MAX_TEXT = 500
_RECV = 4096

_AGREED = rb"(?:2\d\d [^\r\n]*\r\n){%d}354 [^\r\n]*\r\n"
_CODES = {str(code).encode(): code for code in range(200, 600)}
_ENHANCED = re.compile(r"#?([245]\.\d{1,3}\.\d{1,3})(?:[ \n]|$)")
"""Cisco's servers write it with a mark: "550 #5.1.0 Address rejected."."""


class NoReply(smtplib.SMTPException):
    """No reply came: `event` says why, and `reply` stands in for it with the code 0."""

    def __init__(self, event: Event, text: str, *, left: float = 0.0) -> None:
        """`left` are the seconds that were left of a wait that was ended."""
        super().__init__(text)
        self.event = event
        self.left = left
        self.reply = Reply(code=0, text=clean(text))

    @classmethod
    def of(cls, error: OSError) -> NoReply:
        """Turn a socket's error into its event."""
        if isinstance(error, ssl.SSLCertVerificationError):
            told = str(getattr(error, "verify_message", error))  # OpenSSL's own errors have it
            return cls(Event.UNVERIFIED, f"{UNVERIFIED}: {told.rstrip('.')}")
        event = Event.TIMEOUT if isinstance(error, TimeoutError) else Event.CLOSED
        return cls(event, f"{type(error).__name__}: {error}")


class ReplyReader:
    """Reads replies from one socket, each as a whole within its deadline.

    It may take more octets from the socket than one reply. The rest is kept: see `pending`.
    """

    __slots__ = ("_asked", "_clock", "_data", "_goes_on", "_waited", "_was_away", "sock")

    def __init__(self, sock: socket.socket, clock: Callable[[], float] = time.monotonic) -> None:
        self.sock = sock
        self._clock = clock
        self._data = b""
        self._waited = False  # for some octets of the current reply
        self._goes_on: GoesOn | None = None
        self._asked = clock()  # when it was last asked whether to go on
        self._was_away = False  # octets may have come while nobody waited for them

    @property
    def pending(self) -> bool:
        """Whether octets are left over: the server sent more than the replies read so far."""
        return bool(self._data)

    def agreed(self, commands: int) -> bool:
        """Take all replies up to DATA's 354 at once, if exactly those are here and all are good.

        `commands` is the number of commands before DATA. Else nothing is taken, and each reply is
        read alone. Almost every email's replies are alike, and four reads cost as much as a send.
        """
        if not _agreed(commands).fullmatch(self._data):
            return False
        self._data = b""
        return True

    def has_ended(self) -> bool:
        """Return whether the server has ended the connection, by closing it or by a last 421.

        This does not wait. What has come is kept for `read`.
        """
        try:
            while len(self._data) < MAX_AHEAD and (data := self._at_hand()) is not None:
                if not data:
                    return True
                self._data += data
        except OSError:
            return True
        return self._data[self._data.rfind(b"\n", 0, -1) + 1 :].startswith(b"421")

    def read(self, seconds: float, goes_on: GoesOn | None = None) -> tuple[int, bytes]:
        """Return the next reply's code and its lines, joined with LF, within `seconds` in all.

        The deadline is total: octets that drip in do not extend it. Whatever the server and the
        network do, only NoReply is raised. `goes_on` is called every `LOOK` seconds, whether octets
        and replies come in between or not: False ends the wait. Where replies come faster than
        that, it is called before the next wait. Then `read` may be called again: no octet is lost.
        """
        if self._data:  # it came with the reply before, as with PIPELINING: there is no wait
            line, found, rest = self._data.partition(b"\n")
            code, lines = parse_line(line.removesuffix(b"\r")) if found else (0, b"")
            if code > 0:
                self._data = rest
                return code, lines
        deadline = self._clock() + seconds
        self._waited, self._goes_on = False, goes_on
        usual = self.sock.gettimeout()
        self._bound(seconds)
        try:
            code, lines = self._line(deadline)
            return (code, lines) if code > 0 else self._more(-code, [lines], deadline)
        finally:
            if self.sock.gettimeout() != usual:
                self.sock.settimeout(usual)

    def _more(self, code: int, lines: list[bytes], deadline: float) -> tuple[int, bytes]:
        """Read a multi-line reply's further lines: all must carry one code (RFC 5321 §4.2.1)."""
        while len(lines) < MAX_LINES:
            try:
                found, text = self._line(deadline)
            except NoReply as none:
                if none.event is Event.GIVEN_UP:  # the next `read` begins with the first line
                    begun = b"".join(b"%d-%s\r\n" % (code, line) for line in lines)
                    self._data = begun + self._data
                raise
            lines.append(text)
            if found == code:
                return code, b"\n".join(lines)
            if found != -code:
                raise NoReply(Event.GARBAGE, f"a reply with two codes, {code} and {abs(found)}")
        raise NoReply(Event.GARBAGE, f"a reply of more than {MAX_LINES} lines")

    def _line(self, deadline: float) -> tuple[int, bytes]:
        """Return one line's code, negative where more lines follow, and its text."""
        end = self._data.find(b"\n")
        while end < 0:
            if len(self._data) > MAX_REPLY_LINE:
                raise NoReply(Event.GARBAGE, f"a reply line of more than {MAX_REPLY_LINE} octets")
            self._data += self._receive(deadline)
            end = self._data.find(b"\n")
        line, self._data = self._data[:end], self._data[end + 1 :]
        return parse_line(line.removesuffix(b"\r"))

    def _receive(self, deadline: float) -> bytes:
        data: bytes | None = None
        while data is None:
            if self._goes_on is not None and self._clock() - self._asked >= LOOK:
                self._ask(deadline)
            began = self._clock()
            remaining = deadline - began
            if remaining <= 0:
                data = self._last_octets()
                break
            try:
                if self._waited:  # the bound that `read` set was for the first octets
                    self._bound(remaining)
                self._waited, self._was_away = True, False
                data = self.sock.recv(_RECV)
            except OSError as error:
                if not isinstance(error, TimeoutError) or error.errno is not None:
                    raise NoReply.of(error) from error  # with a number it is TCP's own time-out
            if self._goes_on is not None and self._clock() - began > LOOK + STOOD_STILL:
                # Nobody could read a reply sooner: the server is not to be called silent for that.
                self._was_away, self._asked = True, self._clock()
            elif data is None:
                self._ask(deadline)
        if not data:
            raise NoReply(Event.CLOSED, "the server closed the connection")
        return data

    def _last_octets(self) -> bytes:
        """Return what came in time while nobody waited for it; else raise: the time is over."""
        was_away, self._was_away = self._was_away, False
        try:
            data = self._at_hand() if was_away else None
        except OSError as error:
            raise NoReply.of(error) from error
        if data is None:
            raise NoReply(Event.TIMEOUT, "no whole reply within its deadline")
        return data

    def _at_hand(self) -> bytes | None:
        """Take octets that have come; return None where there are none, and b"" at the end."""
        usual = self.sock.gettimeout()
        self.sock.settimeout(0.0)  # with MSG_DONTWAIT TLS would refuse, and gevent would wait
        try:
            return self.sock.recv(_RECV)
        except (BlockingIOError, ssl.SSLWantReadError):
            return None
        finally:
            self.sock.settimeout(usual)

    def _ask(self, deadline: float) -> None:
        """Ask whether to go on waiting, where there is anybody to ask: this may take minutes."""
        self._was_away = self._goes_on is not None
        goes_on = self._goes_on is None or self._goes_on()
        self._asked = self._clock()
        if not goes_on:
            left, text = deadline - self._asked, "no reply yet, and other emails wait"
            raise NoReply(Event.GIVEN_UP, text, left=left) from None

    def _bound(self, seconds: float) -> None:
        """Bound the next wait for octets: by `seconds`, and by `LOOK` where there is a `goes_on`.

        A shorter time-out is kept, because setting one is a system call. Where it ends before the
        deadline, the wait goes on.
        """
        if self._goes_on is not None and seconds > LOOK:
            seconds = LOOK
        timeout = self.sock.gettimeout()
        if timeout is None or timeout > seconds:
            self.sock.settimeout(seconds)


@lru_cache(maxsize=64)
def _agreed(commands: int) -> re.Pattern[bytes]:
    return re.compile(_AGREED % commands)


def parse_line(line: bytes) -> tuple[int, bytes]:
    """Return a reply line's code, negative where more lines follow, and its text.

    A bare code is a reply too (RFC 5321 §4.2). Raises NoReply on anything else.
    """
    if len(line) > MAX_REPLY_LINE:
        raise NoReply(Event.GARBAGE, f"a reply line of more than {MAX_REPLY_LINE} octets")
    code, mark = _CODES.get(line[:3]), line[3:4]
    if code is None or mark not in (b" ", b"-", b"\t", b""):
        start = line[:60].decode("ascii", "replace")
        raise NoReply(Event.GARBAGE, f"this is not an SMTP reply: {start}")
    return (-code if mark == b"-" else code), line[4:].strip()


def parse_reply(code: int, lines: bytes) -> Reply:
    """Return the typed reply: the enhanced code (RFC 3463) apart, the text on one clean line."""
    text = lines.decode("utf-8", "replace")
    found = _ENHANCED.match(text)
    if found is None:
        return Reply(code=code, text=clean(text))
    marked, enhanced = found[0].strip(), found[1]
    if "\n" not in text:
        return Reply(code=code, enhanced=enhanced, text=clean(text[found.end() :].lstrip()))
    rest = "\n".join(line.removeprefix(marked).lstrip() for line in text.split("\n"))
    return Reply(code=code, enhanced=enhanced, text=clean(rest))


def clean(text: str) -> str:
    """Return at most 500 printable characters: no controls, no line ends, no undecodable bytes.

    Databases refuse NUL and lone surrogates. Other control characters act on logs and terminals.
    """
    if not text.isprintable() or "\ufffd" in text:
        text = text.replace("\ufffd", "?")
        text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text[:MAX_TEXT].strip()
