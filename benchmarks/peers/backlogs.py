"""The peers as contestants: each fills its queue, then sends it, and returns its rate."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from sqlalchemy import make_url

from benchmarks.bench import Bench, PeerFailed
from benchmarks.load import HTML, TEXT
from benchmarks.measure import rate
from benchmarks.peers.environments import python_of
from benchmarks.peers.process import PeerProcess, result_of
from benchmarks.peers.smtplib_loop import SmtplibLoop
from tests.support.servers.smtp.smtp_sink import SmtpSink

_WORDS = 4000
"""How much is shown of what a peer printed before it failed."""

_TEXTS = {"BENCH_TEXT": TEXT, "BENCH_HTML": HTML}


def smtplib_loop(emails: int, processes: int = 2) -> float:
    """Return the rate of a bare smtplib loop, which sends prepared bytes without any queue."""
    with SmtpSink() as sink:
        loop = SmtplibLoop(sink.port, emails, processes)
        try:
            return rate(sink, emails, loop.start)
        finally:
            loop.join()


def tutorial(bench: Bench, emails: int) -> float:
    """Return the rate of one Celery task per email, with `celery worker --concurrency 2`."""
    python = python_of("tutorial")
    bench.redis.flushall()
    with SmtpSink() as sink:
        environment = {
            **_TEXTS,
            "BENCH_BROKER": bench.redis.url,
            "BENCH_SMTP_PORT": str(sink.port),
        }
        result_of([python, "run_tutorial.py", str(emails)], environment)
        worker: list[str | Path] = [
            python,
            "-m",
            "celery",
            "-A",
            "run_tutorial",
            "worker",
            "--concurrency=2",
        ]
        return _sent(sink, emails, [*worker, "--loglevel=WARNING"], environment)


def procrastinate(bench: Bench, emails: int) -> float:
    """Return the rate of one procrastinate job per email, with two workers of ten threads."""
    python = python_of("procrastinate")
    url = make_url(bench.postgres.new_database()).set(drivername="postgresql")
    with SmtpSink() as sink:
        environment = {
            **_TEXTS,
            "BENCH_DATABASE_URL": url.render_as_string(),
            "BENCH_SMTP_PORT": str(sink.port),
        }
        script: list[str | Path] = [python, "run_procrastinate.py"]
        result_of([*script, "fill", str(emails)], environment)
        return _sent(sink, emails, [*script, "send"], environment, workers=2)


def post_office(bench: Bench, emails: int) -> float:
    """Return the rate of post_office with two processes of five threads."""
    python = python_of("post_office")
    with SmtpSink() as sink, TemporaryDirectory() as directory:
        environment = _post_office(bench) | {
            "BENCH_SMTP_PORT": str(sink.port),
            "BENCH_LOCK": str(Path(directory, "lock")),  # its own is the same for all on a machine
        }
        script: list[str | Path] = [python, "run_post_office.py"]
        result_of([*script, "fill", str(emails)], environment)
        return _sent(sink, emails, [*script, "send"], environment)


def post_office_enqueue(bench: Bench, emails: int, way: str) -> float:
    """Return the emails per second of `send_many` (fill), or of `send` beside a row (one)."""
    script: list[str | Path] = [python_of("post_office"), "run_post_office.py", way, str(emails)]
    return emails / float(result_of(script, _post_office(bench)).splitlines()[-1])


def _post_office(bench: Bench) -> dict[str, str]:
    url = make_url(bench.postgres.new_database())
    return {
        **_TEXTS,
        "BENCH_DATABASE": str(url.database),
        "BENCH_DATABASE_PORT": str(url.port),
        "BENCH_SMTP_PORT": "25",
    }


def _sent(
    sink: SmtpSink,
    emails: int,
    command: list[str | Path],
    environment: dict[str, str],
    workers: int = 1,
) -> float:
    processes = [PeerProcess(command, environment) for _ in range(workers)]
    with ExitStack() as started:

        def go() -> None:
            for process in processes:
                started.enter_context(process)

        def alive() -> bool:
            return all(process.running for process in processes)

        try:
            return rate(sink, emails, go, alive)
        except TimeoutError as error:
            for process in processes:
                click.echo(process.printed()[-_WORDS:], err=True)
            raise PeerFailed(str(error)) from error
