"""What a process itself stood still while it wrote a content is not the server's silence."""

from __future__ import annotations

import socket
import ssl
import threading
from itertools import count

import pytest

from outbox.smtp import body
from tests.support.servers.authority import Authority

SECONDS = 10.0
WIRE = body.stuffed(b"".join(b"%07d\r\n" % number for number in range(50_000)))


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(("step", "is_asked"), [(22.0, False), (0.0, True)])
def test_nobody_is_asked_whether_to_give_the_email_up(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, is_tls: bool, step: float, is_asked: bool
) -> None:
    """A look ends `step` seconds later than it should, and the server reads from then on."""
    monkeypatch.setattr(body, "LOOK", 0.05)
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    came, looks, asked, reads = bytearray(), count(), list[bool](), threading.Event()

    def read_all() -> None:
        sock: socket.socket = theirs
        if is_tls:
            sock = authority.server.wrap_socket(theirs, server_side=True)
        with sock:
            assert reads.wait(SECONDS)
            while len(came) < len(WIRE) and (more := sock.recv(65_536)):
                came.extend(more)

    def clock() -> float:
        if (look := next(looks)) == 1:  # when the first one is over
            reads.set()
        return look * step

    def goes_on() -> bool:
        asked.append(True)
        return True

    reader = threading.Thread(target=read_all)
    reader.start()
    context = ssl.create_default_context(cafile=authority.ca_file)
    client = context.wrap_socket(ours, server_hostname="127.0.0.1") if is_tls else ours
    with client:
        body.write_body(client, WIRE, b"", lambda: True, SECONDS, goes_on=goes_on, clock=clock)
        reader.join(SECONDS)
    assert bytes(came) == WIRE
    assert bool(asked) is is_asked
