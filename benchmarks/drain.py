"""How fast a backlog drains: a bare smtplib loop, this project, django-post_office.

`make bench` runs it. All send to Postfix's smtp-sink with two processes; the database is a durable
PostgreSQL. A rate is the mails from the first accepted one on, divided by the time to the last.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import smtplib
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import click
from flask import Flask
from flask_mail import Mail
from sqlalchemy import make_url

from benchmarks.load import HTML, TEXT, message
from tests.servers.celery_process import CeleryProcess
from tests.servers.postgres import Postgres
from tests.servers.redis import RedisServer
from tests.servers.smtp_sink import SmtpSink
from tests.waiting import wait_until
from webapp import create_app
from webapp.extensions import db, outbox

PEER = Path(__file__).parent / "peers"
ENVIRONMENT = Path(".bench") / "post_office"
LONGEST = 600.0

Contestant = Callable[[int, Postgres, SmtpSink], Callable[[], None]]
"""Prepares a backlog of so many mails, and returns what starts its drain."""

_senders: list[threading.Thread] = []


def bare_smtplib(mails: int, _: Postgres, sink: SmtpSink) -> Callable[[], None]:
    """Two processes, prepared bytes, one connection each, no database: the floor."""
    app = Flask(__name__)
    Mail(app)
    with app.app_context():
        content = message(0).as_bytes()
    halves = [
        multiprocessing.Process(target=_loop, args=(sink.port, content, mails // 2))
        for _ in range(2)
    ]

    def go() -> None:
        for half in halves:
            half.start()

    return go


def _loop(port: int, content: bytes, mails: int) -> None:
    with smtplib.SMTP("127.0.0.1", port) as server:
        for number in range(mails):
            server.sendmail("shop@example.com", [f"customer-{number}@example.com"], content)


def post_office(mails: int, postgres: Postgres, sink: SmtpSink) -> Callable[[], None]:
    """Queue the mails in a database of their own, and send with two processes of five threads."""
    url = make_url(postgres.new_database())
    python = ENVIRONMENT / "bin" / "python"
    environment = {
        "PATH": os.environ["PATH"],
        "BENCH_DATABASE": str(url.database),
        "BENCH_DATABASE_PORT": str(url.port),
        "BENCH_SMTP_PORT": str(sink.port),
        "BENCH_TEXT": TEXT,
        "BENCH_HTML": HTML,
    }
    script = [str(python), str(PEER / "run_post_office.py")]
    subprocess.run([*script, "fill", str(mails)], env=environment, check=True)

    def send() -> None:
        subprocess.run([*script, "send"], env=environment, check=True)

    sender = threading.Thread(target=send)
    _senders.append(sender)
    return sender.start


class Ours:
    """`celery -A webapp worker --concurrency 2` over a backlog at normal priority."""

    def __init__(self, redis: RedisServer) -> None:
        self._redis = redis
        self._worker: CeleryProcess | None = None

    def __call__(self, mails: int, postgres: Postgres, sink: SmtpSink) -> Callable[[], None]:
        environment = {
            "DATABASE_URL": postgres.new_database(),
            "REDIS_URL": self._redis.url,
            "MAIL_SERVER": sink.host,
            "MAIL_PORT": str(sink.port),
            "SECRET_KEY": "bench",
        }
        os.environ.update(environment)
        app = create_app()
        with app.app_context():
            db.create_all()
            app.extensions["outbox"].runtime.find_celery = lambda: None  # no nudge: we say when
            outbox.enqueue_many((message(n) for n in range(mails)), priority="normal")
            db.session.commit()
            db.engine.dispose()
        self._worker = CeleryProcess("webapp", "worker", "--concurrency=2", environment=environment)
        self._worker.__enter__()
        celery = app.extensions["celery"]
        return lambda: celery.send_task("outbox.sweep", queue="outbox.sweep")

    def close(self) -> None:
        """Stop the worker of the last round."""
        if self._worker is not None:
            self._worker.__exit__(None, None, None)
            self._worker = None


def rate(sink: SmtpSink, mails: int, go: Callable[[], None]) -> float:
    """Start, wait for the last mail, and return mails a second."""
    go()
    wait_until(lambda: sink.accepted() > 0, LONGEST, "the first mail")
    begun, first = time.perf_counter(), sink.accepted()
    wait_until(lambda: sink.accepted() >= mails, LONGEST, lambda: f"{sink.accepted()} mails")
    return (mails - first) / (time.perf_counter() - begun)


def install_peer() -> None:
    """Make post_office's environment, once."""
    if not (ENVIRONMENT / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
        pip = [str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "install", "-qq"]
        subprocess.run([*pip, "-r", str(PEER / "post_office.txt")], check=True)
        (ENVIRONMENT / "installed").touch()


@click.command()
@click.option("--mails", default=10_000, show_default=True)
@click.option("--rounds", default=3, show_default=True)
def main(mails: int, rounds: int) -> None:
    """Print the median rates and our ratio to each, and write them to .bench/drain.json."""
    install_peer()
    rates: dict[str, list[float]] = defaultdict(list)
    with Postgres() as postgres, RedisServer() as redis:
        ours = Ours(redis)
        contestants: dict[str, Contestant] = {
            "smtplib loop": bare_smtplib,
            "this project": ours,
            "post_office": post_office,
        }
        for _ in range(rounds):
            for name, prepare in contestants.items():
                with SmtpSink() as sink:
                    figure = rate(sink, mails, prepare(mails, postgres, sink))
                    ours.close()
                    while _senders:
                        _senders.pop().join()
                rates[name].append(figure)
                click.echo(f"{name:<14}{figure:>8.0f} mails/s")
    medians = {name: statistics.median(figures) for name, figures in rates.items()}
    mine = medians["this project"]
    for name, median in medians.items():
        low, high = min(rates[name]), max(rates[name])
        click.echo(
            f"{name:<14} median {median:>8.0f} mails/s ({low:.0f} to {high:.0f})"
            f"   ours is {mine / median:.2f} times that"
        )
    Path(".bench/drain.json").write_text(json.dumps({"mails": mails, "rates": rates}, indent=2))


if __name__ == "__main__":
    main()
