"""TLS of a server's sessions: the context, read again when its file is replaced; the handshake."""

from __future__ import annotations

import os
import select
import ssl
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING

from ..domain.delivery.reply_table import Event
from .reply_reader import LOOK, STOOD_STILL, NoReply

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from ..domain.config.servers import ServerSettings

Version = tuple[int, int, int]


def context_of(server: ServerSettings) -> ssl.SSLContext:
    """Return the context for a session with this server. Raises NoReply if there is none."""
    ca_file = server.tls_ca_file
    try:
        return current_context(ca_file, server.tls_verify)
    except OSError as error:  # its text lacks the file's name
        what = "OUTBOX_TLS_CA_FILE" if ca_file else "the system's CA bundle"
        text = f"{what} cannot be read: {type(error).__name__}: {error}"
        raise NoReply(Event.LACKING, text) from None


def current_context(ca_file: str, verify: bool) -> ssl.SSLContext:
    """Return a context with the certificates that the CA bundle has now; "" is the system's.

    A worker runs for months, and a bundle is replaced meanwhile.
    """
    if ca_file:
        return tls_context(ca_file, verify, (_version(ca_file),))
    paths = ssl.get_default_verify_paths()
    known = [path for path in (paths.cafile, paths.capath) if path is not None]
    return tls_context(ca_file, verify, tuple(map(_version, known)))


@lru_cache(maxsize=8)
def tls_context(ca_file: str, verify: bool, _: tuple[Version, ...]) -> ssl.SSLContext:
    """Return a context that verifies certificate and name, unless the user says otherwise.

    It is cached for a version of its files: reading the system's CA bundle costs more than sending
    a hundred emails.
    """
    context = ssl.create_default_context(cafile=ca_file or None)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _version(path: str) -> Version:
    """Return what changes when a file is written anew, or another one takes its place."""
    found = os.stat(path)
    return found.st_mtime_ns, found.st_size, found.st_ino


class Handshake:
    """Stands in for a context: the wait for a silent server is ended as that for a reply."""

    def __init__(
        self, context: ssl.SSLContext, goes_on: Callable[[], bool], clock: Callable[[], float]
    ) -> None:
        """`goes_on` is called every `LOOK` seconds while the server is silent."""
        self._context = context
        self._goes_on = goes_on
        self._clock = clock

    def wrap_socket(self, sock: socket.socket, server_hostname: str) -> ssl.SSLSocket:
        """Return the socket under TLS. Its time-out is that of the handshake as a whole."""
        usual = sock.gettimeout()
        wrapped = self._context.wrap_socket(
            sock, server_hostname=server_hostname, do_handshake_on_connect=False
        )
        try:
            wrapped.settimeout(0.0)
            self._shake_hands(wrapped, inf if usual is None else usual)
            wrapped.settimeout(usual)
        except BaseException:
            wrapped.close()
            raise
        return wrapped

    def _shake_hands(self, sock: ssl.SSLSocket, left: float) -> None:
        """Go on as octets come, for the seconds that are `left`: those that drip add none.

        A wait during which this process itself stood still tells nothing of the server, and does
        not count.
        """
        asked = self._clock()
        while (event := _awaited(sock)) is not None:
            look, began = min(left, LOOK), self._clock()
            poll = select.poll()
            poll.register(sock, event)
            poll.poll(look * 1000)
            now = self._clock()
            if now - began > look + STOOD_STILL:
                asked = now
                continue
            left -= now - began
            if left <= 0:
                raise TimeoutError("the TLS handshake took longer than OUTBOX_CONNECT_TIMEOUT")
            if now - asked >= LOOK:
                asked = now
                if not self._goes_on():
                    raise NoReply(Event.GIVEN_UP, "no reply yet, and other emails wait")


def _awaited(sock: ssl.SSLSocket) -> int | None:
    """Take a step of the handshake; return what it waits for, or None where it is done."""
    try:
        sock.do_handshake()
    except ssl.SSLWantReadError:
        return select.POLLIN
    except ssl.SSLWantWriteError:
        return select.POLLOUT
    return None
