"""What a whole system has used so far: processor time of each part, WAL, flushes, commands."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, fields
from pathlib import Path

import redis

from benchmarks.measure import rate
from benchmarks.ours import Ours
from tests.support.servers.brokers.redis import RedisServer
from tests.support.servers.databases.postgres import Postgres
from tests.support.servers.server import Server
from tests.support.servers.smtp.smtp_sink import SmtpSink

_TICKS = os.sysconf("SC_CLK_TCK")
_OWN, _ENDED = slice(11, 13), slice(13, 15)
"""Of a process's statistics behind its name: its own time, and that of its ended children, each in
user and system mode (proc_pid_stat(5))."""

_WAL = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
_PAGES = "SELECT wal_fpi FROM pg_stat_wal"
_FLUSHES = "SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal'"
_SWEEPS = """
SELECT coalesce(sum(seq_scan + idx_scan), 0) FROM pg_stat_user_tables WHERE relname = 'outbox_job'
"""
"""Nothing but a sweep's look reads the table of jobs as long as there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Running totals, or with `minus` what was used between two moments."""

    seconds: float
    wal: float  # bytes
    pages: float  # whole pages in the WAL
    flushes: float  # of the WAL to the disk
    sweeps: float
    commands: float  # of Redis
    postgres: float  # seconds of a processor, as those below
    worker: float
    sink: float
    redis: float
    here: float  # in this process, which enqueues and purges

    def minus(self, earlier: Usage) -> Usage:
        """Return what was used since an earlier moment."""
        names = [each.name for each in fields(self)]
        return Usage(**{name: getattr(self, name) - getattr(earlier, name) for name in names})

    @property
    def busy(self) -> float:
        """How many processors the system kept busy."""
        return (self.postgres + self.worker + self.sink + self.redis) / self.seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class System:
    """The parts whose use is measured."""

    made: Ours
    postgres: Postgres
    broker: RedisServer
    sink: Server

    def usage(self, worker: Server | None = None) -> Usage:
        """Return what was used up to now. A worker that has ended is not known any more."""
        client = redis.Redis.from_url(self.broker.url)
        with client:
            commands = client.info("stats")["total_commands_processed"]
        return Usage(
            seconds=time.perf_counter(),
            wal=self._figure(_WAL),
            pages=self._figure(_PAGES),
            flushes=self._figure(_FLUSHES),
            sweeps=self._figure(_SWEEPS),
            commands=commands,
            postgres=processor_time(self.postgres),
            worker=processor_time(worker) if worker else 0.0,
            sink=processor_time(self.sink),
            redis=processor_time(self.broker),
            here=time.process_time(),
        )

    def _figure(self, statement: str) -> float:
        return float(self.made.scalar(statement))


def rate_and_time(
    made: Ours, postgres: Postgres, worker: Server, sink: SmtpSink, emails: int
) -> tuple[float, float]:
    """Drain; return the rate, and the processor time of worker and PostgreSQL for an email, in µs.

    Whole drains vary by a tenth, and this time by less.
    """
    before = processor_time(worker) + processor_time(postgres)
    figure = rate(sink, emails, made.sweep)
    used = processor_time(worker) + processor_time(postgres) - before
    return figure, used * 1e6 / emails


def processor_time(server: Server) -> float:
    """Return the seconds of a processor that a server has used, with its ended children."""
    return sum(_time(member.pid) for member in server.processes())


def _time(pid: int) -> float:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:  # it has just ended: from now on its parent has its time
        return 0.0
    figures = stat.rpartition(")")[2].split()
    return sum(map(int, figures[_OWN] + figures[_ENDED])) / _TICKS
