"""A bare smtplib loop over prepared bytes: no queue on smtplib can be faster."""

from __future__ import annotations

import multiprocessing
import smtplib
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Barrier

from benchmarks.load import SENDER, address, prepared

_PATIENCE = 30.0


class SmtplibLoop:
    """Processes that share the emails, with one kept connection each."""

    def __init__(self, port: int, emails: int, processes: int) -> None:
        content, spawn = prepared(), multiprocessing.get_context("spawn")
        self._together = spawn.Barrier(processes)  # kept, as it is removed with its last owner
        share = -(-emails // processes)
        self._processes: list[BaseProcess] = [
            spawn.Process(target=_loop, args=(port, content, share, self._together))
            for _ in range(processes)
        ]

    def start(self) -> None:
        """Start the processes, which begin to send."""
        for process in self._processes:
            process.start()

    def join(self) -> None:
        """Wait for the end within a limit: a loop may hang where the measurement failed."""
        for process in self._processes:
            process.join(_PATIENCE)
            process.terminate()


def _loop(port: int, content: bytes, emails: int, together: Barrier) -> None:
    with smtplib.SMTP("127.0.0.1", port) as server:
        together.wait()
        for number in range(emails):
            server.sendmail(SENDER, [address(number)], content)
