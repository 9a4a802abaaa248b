"""A server that takes nothing but what the RFCs allow, octet by octet, and keeps what it took.

It shares no code with the library: its grammar is written from RFC 5321, 6531 and 5322.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass, field

from tests.fuzz.listener import Listener

_UTF8 = rb"(?:[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3})"
_ATEXT = rb"(?:[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]|" + _UTF8 + rb")"
_LOCAL = rb"(?:" + _ATEXT + rb"+(?:\." + _ATEXT + rb"+)*"
_LOCAL += rb'|"(?:[ !#-\[\]-~]|' + _UTF8 + rb'|\\[ -~])*")'
_LABEL = rb"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_DOMAIN = rb"(?:" + _LABEL + rb"(?:\." + _LABEL + rb")*|\[[!-Z^-~]+\])"
_PATH = rb"(" + _LOCAL + rb"@" + _DOMAIN + rb")"
_PARAMETERS = rb"((?: [A-Za-z0-9][A-Za-z0-9-]*(?:=[!-<>-~]+)?)*)"
_MAIL = re.compile(rb"MAIL FROM:<" + _PATH + rb"?>" + _PARAMETERS)
_RCPT = re.compile(rb"RCPT TO:<" + _PATH + rb">" + _PARAMETERS)
_FIELD = re.compile(rb"([!-9;-~]+):[^\r\n]*(?:\r\n[ \t][^\r\n]*)*\r\n")

MAX_COMMAND = 1000  # octets: 512, and what extensions with a parameter add to it
MAX_LINE = 998
_EHLO = b"250-strict.example\r\n250-PIPELINING\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250-DSN\r\n"
_EHLO += b"250 SIZE 100000000\r\n"


@dataclass
class Taken:
    """One email, as its envelope and its octets came."""

    sender: str
    parameters: list[str]
    recipients: list[str] = field(default_factory=list)
    content: bytes = b""

    @property
    def utf8(self) -> bool:
        return "SMTPUTF8" in self.parameters

    @property
    def fields(self) -> list[tuple[str, bytes]]:
        """The header fields in order; a line that is part of none is an error."""
        block, gap, _ = self.content.partition(b"\r\n\r\n")
        assert gap, "the header has no end"
        block, found, place = block + b"\r\n", [], 0
        while place < len(block):
            match = _FIELD.match(block, place)
            assert match, f"no header field: {block[place : place + 60]!r}"
            name, _, value = match[0].partition(b":")
            found.append((name.decode(), value))
            place = match.end()
        return found


class StrictServer(Listener):
    """Keeps what comes; `taken` empties it, or raises a fault."""

    def __init__(self) -> None:
        super().__init__("strict-smtp")
        self._emails: list[Taken] = []
        self._faults: list[str] = []

    def taken(self) -> list[Taken]:
        """Return the emails that came since the last call; AssertionError for what is forbidden."""
        emails, self._emails = self._emails, []
        faults, self._faults = self._faults, []
        assert not faults, "; ".join(faults)
        return emails

    def drop(self) -> None:
        """Forget what has come, emails and faults."""
        self._emails, self._faults = [], []

    def serve(self, sock: socket.socket) -> None:
        sock.sendall(b"220 strict.example ESMTP\r\n")
        data, mail, word = b"", None, b""
        while word != b"QUIT":
            line, data = _until(b"\n", data, sock)
            try:
                word = self._command(line)
                if word == b"MAIL":
                    mail = self._mail(line[:-1])
                elif word == b"RCPT" and mail is not None:
                    mail.recipients.append(self._rcpt(line[:-1], mail))
            except AssertionError as fault:
                self._faults.append(str(fault))
                sock.sendall(b"550 5.5.2 forbidden\r\n")
                continue
            if word == b"DATA":
                sock.sendall(b"354 go on\r\n")
                body, data = _until(b"\r\n.\r\n", b"\r\n" + data, sock)
                self._content(mail, body[2:] + b"\r\n")
                mail = None
            sock.sendall(_EHLO if word == b"EHLO" else b"250 2.0.0 fine\r\n")

    @staticmethod
    def _command(line: bytes) -> bytes:
        assert line.endswith(b"\r"), "a command ends with a bare LF"
        assert not re.search(rb"[\0\r\n]", line[:-1]), "a command has a CR or NUL in it"
        assert len(line) + 1 <= MAX_COMMAND, f"a command of {len(line) + 1} octets"
        word = line[:-1].split(b" ")[0].upper()
        assert word in {b"EHLO", b"MAIL", b"RCPT", b"DATA", b"RSET", b"QUIT", b"NOOP"}, word
        return word

    @staticmethod
    def _mail(line: bytes) -> Taken:
        match = _MAIL.fullmatch(line)
        assert match, f"no MAIL command: {line!r}"
        parameters = match[2].decode().split()
        names = [parameter.partition("=")[0].upper() for parameter in parameters]
        assert len(set(names)) == len(names), f"a parameter stands twice: {names}"
        assert line.isascii() or "SMTPUTF8" in names, "UTF-8 without SMTPUTF8"
        return Taken((match[1] or b"").decode(), parameters)

    @staticmethod
    def _rcpt(line: bytes, mail: Taken) -> str:
        match = _RCPT.fullmatch(line)
        assert match, f"no RCPT command: {line!r}"
        assert line.isascii() or mail.utf8, "UTF-8 without SMTPUTF8"
        return match[1].decode()

    def _content(self, mail: Taken | None, octets: bytes) -> None:
        if mail is None:
            self._faults.append("DATA without MAIL")
            return
        lines = octets.split(b"\r\n")[:-1]
        if any(re.search(rb"[\r\n]", line) for line in lines):
            self._faults.append("a bare CR or LF in the content")
        if b"\0" in octets:
            self._faults.append("a NUL in the content")
        if any(line.startswith(b".") and not line.startswith(b"..") for line in lines):
            self._faults.append("a line with a dot that is not doubled")
        stripped = [line.removeprefix(b".") for line in lines]
        if any(len(line) > MAX_LINE for line in stripped):
            self._faults.append("a line of more than 998 octets")
        mail.content = b"".join(line + b"\r\n" for line in stripped)
        announced = [p for p in mail.parameters if p.startswith("SIZE=")]
        if announced != [f"SIZE={len(mail.content)}"]:
            self._faults.append(f"announced {announced}, sent {len(mail.content)}")
        if not mail.content.isascii() and "BODY=8BITMIME" not in mail.parameters:
            self._faults.append("octets over 127 without BODY=8BITMIME")
        self._emails.append(mail)


def _until(end: bytes, data: bytes, sock: socket.socket) -> tuple[bytes, bytes]:
    """Read on until `end` has come; return what stands before it, and what behind it."""
    seen = 0
    while (place := data.find(end, seen)) < 0:
        seen = max(0, len(data) - len(end))
        more = sock.recv(1 << 16)
        if not more:
            raise ConnectionResetError
        data += more
    return data[:place], data[place + len(end) :]
