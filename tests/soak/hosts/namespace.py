"""A host's own network: a namespace of the kernel, joined to us by a pair of virtual interfaces.

Nothing of it is left by name: it lives as long as the process that holds it, and the interfaces
with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from tests.support.servers.server import Server

_TOOLS = ("ip", "nsenter", "unshare")
_NETWORK = "198.18"
"""Set aside for tests of networks (RFC 2544): it is nobody's own."""


class Namespace(Server):
    """A network namespace with one interface, whose other end has `address` on our side."""

    name: ClassVar[str] = "namespace"

    def __init__(self, number: int) -> None:
        third = os.getpid() % 64 * 4 + number % 4  # two soaks at once do not meet
        self.address = f"{_NETWORK}.{third}.1"
        self._theirs = f"{_NETWORK}.{third}.2"
        self._interface = f"soak{os.getpid()}h{number}"[-15:]

    @staticmethod
    def allowed() -> bool:
        """Return whether the tools are there and the kernel lets us."""
        if not all(shutil.which(tool) for tool in _TOOLS):
            return False
        try:
            with Namespace(3):
                return True
        except (RuntimeError, TimeoutError, subprocess.CalledProcessError):
            return False

    def command(self) -> Sequence[str | Path]:
        return ["unshare", "--net", "sleep", "infinity"]

    def answers(self) -> bool:
        if not self.running:
            return False
        if os.readlink(f"/proc/{self.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            return False
        return Path(f"/proc/{self.pid}/comm").read_text().strip() == "sleep"

    def start(self) -> None:
        super().start()
        try:
            self._join()
        except BaseException:
            self.kill_9()
            raise

    def inside(self) -> list[str]:
        """Return what to put before a command that is to run on this host."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", "--"]

    def unplug(self) -> None:
        """Take the interface down: nothing gets through, and nobody is told."""
        _run("ip", "link", "set", self._interface, "down")

    def plug(self) -> None:
        """Bring it up again."""
        _run("ip", "link", "set", self._interface, "up")

    def _join(self) -> None:
        pair = ["type", "veth", "peer", "name", "eth0", "netns", str(self.pid)]
        _run("ip", "link", "add", self._interface, *pair)
        _run("ip", "address", "add", f"{self.address}/30", "dev", self._interface)
        self.plug()
        _run(*self.inside(), "ip", "address", "add", f"{self._theirs}/30", "dev", "eth0")
        _run(*self.inside(), "ip", "link", "set", "eth0", "up")
        _run(*self.inside(), "ip", "link", "set", "lo", "up")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
