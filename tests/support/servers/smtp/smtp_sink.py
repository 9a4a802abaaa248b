"""smtp-sink: Postfix's SMTP server that throws every email away as fast as it can be sent."""

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from tests.support.servers.missing import missing
from tests.support.servers.ports import LOOPBACK, accepts, free_port
from tests.support.servers.server import UNPRIVILEGED, Server

_PATH = "/usr/sbin:/usr/libexec/postfix:/usr/local/sbin"


class SmtpSink(Server):
    """A server for measurements: it accepts all and counts.

    `options` are smtp-sink's own, for instance `"-p"` (no pipelining) or `"-r", "RCPT"`. A change
    of them counts from the next start on.
    """

    name: ClassVar[str] = "smtp-sink"
    owner: ClassVar[int | None] = UNPRIVILEGED

    def __init__(self, *options: str) -> None:
        self.port = free_port()
        self.options: Sequence[str] = options

    @property
    def host(self) -> str:
        """The address for `MAIL_SERVER`."""
        return LOOPBACK

    def accepted(self) -> int:
        """Return how many emails it has accepted since its last start.

        Only the end of the log is read: it grows with every email, and who measures asks often.
        """
        with self.log.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, size - 200))
            counts = re.findall(rb"mesg=(\d+)", log.read())
        return int(counts[-1]) if counts else 0

    def command(self) -> Sequence[str | Path]:
        binary = shutil.which("smtp-sink", path=_PATH)
        if binary is None:
            missing("smtp-sink", "apt install postfix")
        return [binary, "-c", *self.options, f"inet:{LOOPBACK}:{self.port}", "128"]

    def answers(self) -> bool:
        return accepts(self.port)  # what it greets with is the options' affair
