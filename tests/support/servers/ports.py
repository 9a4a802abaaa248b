"""Free ports that stay free."""

import random
import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_240


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on and that no outgoing connection will take.

    It lies below the ephemeral range: while a server is stopped, a client that keeps trying to
    reconnect could otherwise be given that very port and talk to itself.
    """
    end = int(_EPHEMERAL.read_text().split()[0]) if _EPHEMERAL.exists() else 32_768
    while True:
        port = random.randrange(_LOWEST, end)
        with socket.socket() as probe:
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            return port


def accepts(port: int) -> bool:
    """Tell whether somebody accepts connections on the port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0
