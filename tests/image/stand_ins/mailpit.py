#!/venv/bin/python
"""Stands in for Mailpit: takes each email after 20 ms, and lists them as Mailpit's API does.

    GET /api/v1/messages?start=0&limit=1  →  {"total": 9, "messages": [{"To": [{"Address": …}]}]}

Without the wait a newsletter would be over before a worker can be killed.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from aiosmtpd.smtp import SMTP

WAIT = 0.02
kept: list[list[str]] = []


class Keeper:
    """aiosmtpd's handler: keeps the recipients of each email."""

    async def handle_DATA(self, _server: object, _session: object, envelope: Any) -> str:  # noqa: N802
        """Keep the recipients, and then answer: an email may be kept without a reply."""
        kept.append(list(envelope.rcpt_tos))
        await asyncio.sleep(WAIT)
        return "250 2.0.0 Kept"


class Api(BaseHTTPRequestHandler):
    """The two paths that are asked for."""

    def do_GET(self) -> None:
        """Answer as Mailpit does."""
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        start, limit = int(query.get("start", ["0"])[0]), int(query.get("limit", ["50"])[0])
        page = [{"To": [{"Address": to} for to in tos]} for tos in kept[start : start + limit]]
        body = (
            b""
            if url.path == "/readyz"
            else json.dumps({"total": len(kept), "messages": page}).encode()
        )
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


async def serve() -> None:
    """Serve both ports until the container is stopped."""
    web = ThreadingHTTPServer(("0.0.0.0", 8025), Api)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(
        signal.SIGTERM, stop.set
    )  # the container's first process has no default
    server = await loop.create_server(lambda: SMTP(Keeper(), loop=loop), "0.0.0.0", 1025)
    await stop.wait()
    server.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["readyz"]:
        urllib.request.urlopen("http://127.0.0.1:8025/readyz", timeout=2).close()
    else:
        asyncio.run(serve())
