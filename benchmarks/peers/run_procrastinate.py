"""procrastinate with one job per email. It runs in its own environment: `fill N` or `send`.

A worker runs synchronous tasks in threads, and each thread keeps its SMTP connection.
"""

from __future__ import annotations

import asyncio
import os
import smtplib
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage

import procrastinate

CONCURRENCY = 10
_DATABASE = os.environ["BENCH_DATABASE_URL"]
_kept = threading.local()


def _connector() -> procrastinate.BaseConnector:
    if sys.argv[1] == "send":
        return procrastinate.PsycopgConnector(conninfo=_DATABASE, max_size=CONCURRENCY)
    return procrastinate.SyncPsycopgConnector(conninfo=_DATABASE)


app = procrastinate.App(connector=_connector())


@app.task(name="send_mail")
def send_mail(subject: str, sender: str, recipient: str, text: str, html: str) -> None:
    """Send one email."""
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = subject, sender, recipient
    message.set_content(text)
    message.add_alternative(html, subtype="html")
    _server().send_message(message)


def _server() -> smtplib.SMTP:
    if not hasattr(_kept, "server"):
        _kept.server = smtplib.SMTP("127.0.0.1", int(os.environ["BENCH_SMTP_PORT"]))
    server: smtplib.SMTP = _kept.server
    return server


def fill(emails: int) -> None:
    """Make the tables and queue the emails."""
    with app.open():
        app.schema_manager.apply_schema()
        shared = {
            "subject": "Your order",
            "sender": "shop@example.com",
            "text": os.environ["BENCH_TEXT"],
            "html": os.environ["BENCH_HTML"],
        }
        for start in range(0, emails, 1000):
            numbers = range(start, min(emails, start + 1000))
            send_mail.batch_defer(
                *({**shared, "recipient": f"customer-{number}@example.com"} for number in numbers)
            )


async def send() -> None:
    """Send with as many threads as jobs at once; by default asyncio has four more than cores."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(CONCURRENCY))
    async with app.open_async():
        await app.run_worker_async(concurrency=CONCURRENCY)


if sys.argv[1] == "fill":
    fill(int(sys.argv[2]))
else:
    asyncio.run(send())
