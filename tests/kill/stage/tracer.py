"""Tells every commit, every SMTP command and reply, and every publish of a process as it happens.

It wraps the lowest places that all code goes through: the dialect's calls of the driver, sockets to
the SMTP server, and kombu's publish. So new code is seen without a word here.
"""

from __future__ import annotations

import re
import socket
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
import pymysql
import sqlalchemy as sa
from kombu.messaging import Producer

_END = b"\r\n.\r\n"
_LAST_LINE = re.compile(rb"^(\d{3})(?: [^\r\n]*)?\r\n", re.MULTILINE)
_TABLE = re.compile(r"\b(?:outbox_\w+|orders)\b")


class Kind(StrEnum):
    """What a process has just done, or is about to do."""

    STATEMENT = "statement"  # inside a transaction
    COMMITTING = "committing"  # about to commit
    COMMITTED = "committed"  # a transaction, or a statement that is one by itself
    WRITTEN = "written"  # octets handed to the kernel for the SMTP server
    READ = "read"  # one SMTP reply
    PUBLISHING = "publishing"
    PUBLISHED = "published"


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """A place at which a process may die. `dots` final dots were written before it, or with it."""

    kind: Kind
    name: str
    dots: int

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class ReplyLost(Exception):
    """Raised by who is told of a commit: it has landed, and the client shall not know of it."""


class Doubled(Exception):
    """Raised by who is told that something is published: it shall be published once more."""


@dataclass(kw_only=True)
class Tracer:
    """Calls `tell` at every point, in the thread that comes to it."""

    tell: Callable[[Point], None]
    engine: sa.Engine
    smtp_port: int
    statements: bool = False  # also those inside of a transaction
    dots: int = 0
    _dialogues: WeakKeyDictionary[socket.socket, _Dialogue] = field(
        default_factory=WeakKeyDictionary
    )

    def install(self) -> None:
        """Wrap the places, for the rest of this process's life."""
        self._wrap_database()
        self._wrap_sockets()
        self._wrap_publish()

    def _reach(self, kind: Kind, name: str) -> None:
        self.tell(Point(kind=kind, name=name, dots=self.dots))

    def _wrap_database(self) -> None:
        dialect: Any = self.engine.dialect
        commit = dialect.do_commit

        def do_commit(connection: Any) -> None:
            self._reach(Kind.COMMITTING, "transaction")
            commit(connection)
            self._committed(connection.dbapi_connection, "transaction")

        def observed(execute: Callable[..., None]) -> Callable[..., None]:
            def do_execute(cursor: Any, statement: str, *rest: Any, **more: Any) -> None:
                execute(cursor, statement, *rest, **more)
                self._executed(cursor.connection, statement)

            return do_execute

        dialect.do_commit = do_commit
        dialect.do_execute = observed(dialect.do_execute)
        dialect.do_executemany = observed(dialect.do_executemany)
        dialect.do_execute_no_params = observed(dialect.do_execute_no_params)

    def _executed(self, connection: Any, statement: str) -> None:
        verb, found = statement.split(None, 1)[0], _TABLE.search(statement)
        name = f"{verb} {found[0]}" if found else verb
        if verb == "PRAGMA":
            return
        if _commits_by_itself(connection):
            self._committed(connection, name)
        elif self.statements:
            self._reach(Kind.STATEMENT, name)

    def _committed(self, connection: Any, name: str) -> None:
        try:
            self._reach(Kind.COMMITTED, name)
        except ReplyLost:
            raise _disconnected(connection) from None

    def _wrap_sockets(self) -> None:
        real = {name: getattr(socket.socket, name) for name in ("send", "sendall", "recv")}

        def send(sock: socket.socket, octets: Any, *flags: int) -> int:
            sent: int = real["send"](sock, octets, *flags)
            self._wrote(sock, bytes(octets[:sent]))
            return sent

        def sendall(sock: socket.socket, octets: Any, *flags: int) -> None:
            real["sendall"](sock, octets, *flags)
            self._wrote(sock, bytes(octets))

        def recv(sock: socket.socket, size: int, *flags: int) -> bytes:
            if not self._is_smtp(sock):
                return bytes(real["recv"](sock, size, *flags))
            return self._read(sock, size, real["recv"])

        for wrapper in (send, sendall, recv):
            setattr(socket.socket, wrapper.__name__, wrapper)

    def _is_smtp(self, sock: socket.socket) -> bool:
        try:
            return bool(sock.getpeername()[1] == self.smtp_port)
        except (OSError, IndexError):
            return False

    def _wrote(self, sock: socket.socket, octets: bytes) -> None:
        if self._is_smtp(sock):
            name, dots = self._dialogues.setdefault(sock, _Dialogue()).wrote(octets)
            self.dots += dots
            self._reach(Kind.WRITTEN, name)

    def _read(self, sock: socket.socket, size: int, recv: Callable[..., bytes]) -> bytes:
        """Hand out one reply at a time, however many have arrived: each one is a point."""
        dialogue = self._dialogues.setdefault(sock, _Dialogue())
        waiting = recv(sock, size, socket.MSG_PEEK)
        whole = _LAST_LINE.search(dialogue.partial + waiting)
        length = whole.end() - len(dialogue.partial) if whole else len(waiting)
        octets = recv(sock, length) if length else b""
        if whole is None:
            dialogue.partial += octets
            return octets
        dialogue.partial = b""
        dialogue.in_content = whole[1] == b"354"
        self._reach(Kind.READ, whole[1].decode())
        return octets

    def _wrap_publish(self) -> None:
        kombu: Any = Producer
        publish = kombu.publish

        def observed(producer: Any, *body: Any, **options: Any) -> Any:
            name = str(options.get("routing_key"))
            self._reach(Kind.PUBLISHING, name)
            result = publish(producer, *body, **options)
            try:
                self._reach(Kind.PUBLISHED, name)
            except Doubled:
                publish(producer, *body, **options)
            return result

        kombu.publish = observed


@dataclass(kw_only=True, eq=False)
class _Dialogue:
    """One SMTP connection: what of a reply has come, and whether a content is on its way."""

    partial: bytes = b""
    in_content: bool = False
    tail: bytes = b"\r\n"

    def wrote(self, octets: bytes) -> tuple[str, int]:
        """Return the name of what was written, and how many final dots were in it."""
        words, dots = [], 0
        if self.in_content:
            end = (self.tail + octets).find(_END)
            if end < 0:
                self.tail = (self.tail + octets)[-4:]
                return "content", 0
            octets = (self.tail + octets)[end + len(_END) :]
            self.in_content, self.tail, words, dots = False, b"\r\n", ["."], 1
        words += [line.split(b" ", 1)[0].decode() for line in octets.split(b"\r\n") if line]
        return " ".join(words), dots


def _commits_by_itself(connection: Any) -> bool:
    if isinstance(connection, sqlite3.Connection):
        return not connection.in_transaction
    if isinstance(connection, pymysql.connections.Connection):
        return bool(connection.get_autocommit())
    return bool(connection.autocommit)


def _disconnected(connection: Any) -> Exception:
    """Break the connection; return what its driver raises for a server that is gone."""
    kind = type(connection)
    if kind is sqlite3.Connection:  # has no server: the nearest to it
        return sqlite3.OperationalError("disk I/O error")
    if kind is pymysql.connections.Connection:
        connection._force_close()  # what is closed in order may not be closed again
        return pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")
    connection.close()
    return psycopg.OperationalError("server closed the connection unexpectedly")
