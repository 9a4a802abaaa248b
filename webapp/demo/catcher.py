"""The demo's SMTP server: accepts every email, delivers none, and keeps them for `/inbox`.

python -m webapp.demo.catcher --port 2525 --maildir .demo/inbox
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP

from ..maildir import Maildir


class Keeper:
    """aiosmtpd's handler: keeps each email in a file, with its recipients above its header."""

    def __init__(self, maildir: Maildir) -> None:
        self.maildir = maildir

    async def handle_DATA(self, _server: object, _session: object, envelope: Any) -> str:  # noqa: N802
        """Store the email before the reply takes responsibility for it."""
        path = "".join(f"Delivered-To: {address}\r\n" for address in envelope.rcpt_tos)
        self.maildir.add(path.encode("utf-8", "surrogateescape") + envelope.original_content)
        return "250 2.0.0 Kept for the inbox"


async def serve(host: str, port: int, maildir: Maildir) -> None:
    """Serve until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    handler = Keeper(maildir)
    server = await loop.create_server(
        lambda: SMTP(handler, hostname="inbox.localhost", enable_SMTPUTF8=True, loop=loop),
        host,
        port,
    )
    await stop.wait()
    server.close()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--maildir", type=Path, required=True)
    options = parser.parse_args()
    asyncio.run(serve(options.host, options.port, Maildir(options.maildir)))
    os._exit(0)  # each email is in its file: there is nothing to wait for


if __name__ == "__main__":
    main()
