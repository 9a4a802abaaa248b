"""The soak's SMTP server: it notes every email before it answers for it, and misbehaves when told.

This file is both sides: imported it is the soak's, executed it is the server. What it notes is one
line an event: moment, event, recipient, Message-ID, business reference, detail.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

from tests.soak.classes import FOR_GOOD, Refusal, declared_size, domain_of, refused_now
from tests.soak.hosts.wire import BUSINESS, CLASS, CLASS_OVER, refused_at
from tests.support.servers.own import OwnServer
from tests.support.servers.ports import LOOPBACK

_EXTENSIONS = b"250-soak.example\r\n250-PIPELINING\r\n250-8BITMIME\r\n250 SIZE 67108864\r\n"
_ADDRESS = re.compile(rb"<([^>]*)>")
_ID = re.compile(rb"^Message-ID:\s*(\S+)", re.IGNORECASE | re.MULTILINE)
_BUSINESS = re.compile(rb"^%s:\s*(\S+)" % BUSINESS.encode(), re.IGNORECASE | re.MULTILINE)
_PACE = 0.005
"""Seconds that an email takes, as if the server wrote to a disk: a window is open for some."""

PLACES: dict[str, tuple[str, ...]] = {
    "4xx": ("MAIL", "RCPT", "DATA", "DOT"),
    "5xx": ("MAIL", "RCPT", "DATA", "DOT"),
    "421": ("GREETING", "MAIL", "RCPT", "DATA", "DOT"),
    "drop": ("GREETING", "MAIL", "RCPT", "DATA", "BODY", "DOT", "REPLY"),
    "hang": ("MAIL", "RCPT", "DATA", "DOT", "REPLY"),
}
"""How it can misbehave, and where. At DOT the email is not accepted, at REPLY it is."""


class SoakSmtp(OwnServer):
    """The server, with its log in the directory that the soak keeps."""

    name: ClassVar[str] = "soak-smtp"

    def __init__(self, notes: Path) -> None:
        super().__init__()
        self.notes = notes
        self._changing = threading.Lock()
        self._how: dict[str, object] = {}
        self._refusals: list[Refusal] = []

    def misbehave(self, how: str, *, share: float, seconds: float = 0.0) -> None:
        """Misbehave so in this share of the transactions; a hang is silent for `seconds`."""
        self._change(mood={"how": how, "share": share, "seconds": seconds})

    def behave(self) -> None:
        """Do not misbehave any more."""
        self._change(mood={})

    def refuse(self, refusal: Refusal) -> None:
        """Refuse this class of emails from now on."""
        self._change(begins=refusal)

    def accept(self, refusal: Refusal) -> None:
        """Refuse it no more, and note that it is over."""
        with self.notes.open("a") as notes:
            notes.write(f"{time.time():.3f}\t{CLASS_OVER}\t\t\t\t{refusal.name}\n")
        self._change(ends=refusal)

    def prepare(self) -> None:
        self._change()

    def arguments(self) -> Sequence[object]:
        return (self.notes, self._mood)

    @property
    def _mood(self) -> Path:
        return self.data / "mood"

    def _change(
        self,
        *,
        mood: dict[str, object] | None = None,
        begins: Refusal | None = None,
        ends: Refusal | None = None,
    ) -> None:
        """Tell the server: a mood and a refusal may change at the same time."""
        with self._changing:
            self._how = self._how if mood is None else mood
            self._refusals = [one for one in (*self._refusals, begins) if one not in (None, ends)]
            told = {**self._how, "refusals": [asdict(refusal) for refusal in self._refusals]}
            new = self._mood.with_suffix(".new")
            new.write_text(json.dumps(told))
            new.replace(self._mood)


class _GoneError(Exception):
    """This connection ends here, without a word."""


class _Desk:
    """What all connections share: the notes, and the mood that the soak has set."""

    def __init__(self, notes: str, mood: str) -> None:
        self._file = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._mood = Path(mood)
        self._random = random.Random()

    def note(self, event: str, recipients: Sequence[str], *more: str) -> None:
        """Write one line for each recipient; it stands there when this returns."""
        start = f"{time.time():.3f}\t{event}"
        lines = "".join("\t".join((start, to, *more)) + "\n" for to in recipients)
        os.write(self._file, lines.encode())

    def draw(self, *places: str) -> tuple[str, str, float]:
        """Draw whether to misbehave at one of these places: how, where, and for how long."""
        mood = json.loads(self._mood.read_text())
        how = mood.get("how", "")
        if not how or self._random.random() >= mood["share"]:
            return "", "", 0.0
        where = self._random.choice(PLACES[how])
        return (how, where, mood["seconds"]) if where in places else ("", "", 0.0)

    def refusals(self) -> tuple[Refusal, ...]:
        """Return the classes that are refused now."""
        told = json.loads(self._mood.read_text()).get("refusals", ())
        return (*FOR_GOOD, *(Refusal(**one) for one in told))


class _Session:
    """One connection. Commands may come in one packet, and the next email's behind a final dot."""

    def __init__(
        self, desk: _Desk, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._desk = desk
        self._reader = reader
        self._writer = writer
        self._fault = ("", "", 0.0)
        self._sender, self._size = "", 0
        self._refusals: tuple[Refusal, ...] = ()
        self._sender_refused = ""
        self._recipients: list[str] = []

    async def run(self) -> None:
        """Serve until QUIT or the client's end."""
        self._fault = self._desk.draw("GREETING")
        await self._reply("GREETING", "220 soak.example ESMTP")
        while True:
            line = await self._reader.readuntil(b"\r\n")
            match line[:4].upper():
                case b"EHLO":
                    self._writer.write(_EXTENSIONS)
                case b"MAIL":
                    await self._mail(line)
                case b"RCPT":
                    await self._rcpt(line)
                case b"DATA":
                    await self._data()
                case b"QUIT":
                    self._writer.write(b"221 bye\r\n")
                    return
                case _:
                    self._writer.write(b"250 OK\r\n")

    async def _mail(self, line: bytes) -> None:
        self._recipients = []
        self._fault = self._desk.draw("MAIL", "RCPT", "DATA", "BODY", "DOT", "REPLY")
        self._refusals = self._desk.refusals()
        self._sender, self._size = _address(line), declared_size(line.decode(errors="replace"))
        reply = await self._reply("MAIL", self._usual("MAIL", "", "250 2.1.0 OK"))
        self._sender_refused = "" if reply.startswith("2") else reply

    async def _rcpt(self, line: bytes) -> None:
        recipient = _address(line)
        if self._sender_refused:
            self._note_refusal([recipient], self._sender_refused)
            self._writer.write(b"503 5.5.1 MAIL first\r\n")
            return
        usual = "250 2.1.5 OK"
        if refused_at(recipient) == "RCPT":
            usual = "550 5.1.1 no such mailbox"
        reply = await self._reply("RCPT", self._usual("RCPT", recipient, usual))
        if reply.startswith("2"):
            self._recipients.append(recipient)
        else:
            self._note_refusal([recipient], reply)

    async def _data(self) -> None:
        if not self._recipients:
            self._writer.write(b"554 5.5.1 no valid recipients\r\n")
            return
        reply = await self._reply("DATA", "354 go on")
        if not reply.startswith("3"):
            self._note_refusal(self._recipients, reply)
            return
        if self._fault[1] == "BODY":
            await self._reader.read(20)
            raise _GoneError
        content = await self._reader.readuntil(b"\r\n.\r\n")
        await asyncio.sleep(_PACE)
        await self._take(content)
        self._recipients = []

    async def _take(self, content: bytes) -> None:
        """Answer for an email, or not; what is accepted is noted before its reply leaves."""
        header = content.partition(b"\r\n\r\n")[0]
        found = (_ID.search(header), _BUSINESS.search(header))
        names = [match[1].decode() if match else "" for match in found]
        refused = any(refused_at(to) == "DOT" for to in self._recipients)
        usual = "554 5.7.1 refused" if refused else "250 2.0.0 OK"
        if self._fault[1] == "DOT" and self._fault[0] in ("drop", "hang"):
            self._desk.note("unanswered", self._recipients, *names)
        reply = await self._reply("DOT", usual)
        if not reply.startswith("2"):
            self._note_refusal(self._recipients, reply, names)
            return
        self._desk.note("accepted", self._recipients, *names)
        if self._fault[1] == "REPLY":
            self._desk.note("unanswered", self._recipients, *names)
        await self._reply("REPLY", "", said=reply)

    async def _reply(self, place: str, usual: str, *, said: str = "") -> str:
        """Answer as usual or as the mood is. The final dot's 2xx leaves at REPLY only."""
        how, where, seconds = self._fault
        reply = usual or said
        if where == place:
            self._fault = ("", "", 0.0)
            reply = await self._misbehave(how, seconds, reply)
        if not (place == "DOT" and reply.startswith("2")):
            self._writer.write(f"{reply}\r\n".encode())
            await self._writer.drain()
        if reply.startswith("421"):
            raise _GoneError
        return reply

    def _usual(self, place: str, recipient: str, usual: str) -> str:
        """Return what this email is answered here, but for the server's mood."""
        domain, sender, size = domain_of(recipient), self._sender, self._size
        refusal = refused_now(self._refusals, place, sender=sender, size=size, domain=domain)
        if refusal is None:
            return usual
        if self._fault[1] != place:
            self._desk.note(CLASS, [recipient], "", "", refusal.name, refusal.reply)
        return refusal.reply

    async def _misbehave(self, how: str, seconds: float, usual: str) -> str:
        match how:
            case "drop":
                raise _GoneError
            case "hang":
                await asyncio.sleep(seconds)
                return usual
        return {
            "4xx": "450 4.2.0 not now",
            "5xx": "554 5.6.0 not at all",
            "421": "421 4.3.2 closing",
        }[how]

    def _note_refusal(
        self, recipients: Sequence[str], reply: str, names: Sequence[str] = ("", "")
    ) -> None:
        self._desk.note("refused", recipients, *names, reply)


def _address(command: bytes) -> str:
    found = _ADDRESS.search(command)
    return found[1].decode() if found else ""


async def _serve(port: int, desk: _Desk) -> None:
    async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _Session(desk, reader, writer).run()
            await writer.drain()
            writer.close()
        except (_GoneError, OSError, asyncio.IncompleteReadError):
            writer.close()

    server = await asyncio.start_server(session, LOOPBACK, port, backlog=256, limit=1 << 22)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), _Desk(sys.argv[2], sys.argv[3])))
