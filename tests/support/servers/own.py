"""A server of our own: a module of this repository, executed in a process of its own."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

from tests.support.servers.ports import accepts, free_port
from tests.support.servers.server import Server

_ROOT = Path(__file__).parents[3]


class OwnServer(Server):
    """Executes the module that its class stands in, with its port and the `arguments`."""

    def __init__(self) -> None:
        self.port = free_port()

    @abstractmethod
    def arguments(self) -> Sequence[object]:
        """Return the words behind the port."""

    def command(self) -> Sequence[str | Path]:
        words = (self.port, *self.arguments())
        return [sys.executable, "-m", type(self).__module__, *map(str, words)]

    def working_directory(self) -> Path:
        return _ROOT

    def answers(self) -> bool:
        return accepts(self.port)
