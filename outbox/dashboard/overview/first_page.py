"""What the first page shows. Only the tables are read: no worker and no broker is asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from ...domain.config.servers import ServerSettings
from ...domain.fleet import WorkerState
from ...domain.jobs.order import JobState
from ...flask_ext.app.state import state_of
from ...flask_ext.jobs.verbs import Jobs
from ...flask_ext.management.checks.codes import Code
from ...flask_ext.management.health import HealthLine, overview
from ...flask_ext.management.results import Fleet, Health, WorkerDetails
from ...flask_ext.management.server_lines import SUPPRESSED, redirect_line
from ...store.queries.standstill import MOST_COUNTED
from ...store.report_records import Backlog, Job, Pause, ServerStatus
from ...worker.process.runtime import Runtime
from .summary import Summary, summarise

_MOST_JOBS = 5
_EACH: dict[float, str] = {1: "a second", 60: "a minute", 3600: "an hour", 86_400: "a day"}


@dataclass(frozen=True, kw_only=True)
class ServerLine:
    """A server, and how much it may be given."""

    status: ServerStatus
    rate: str  # "" without a limit
    cap: int | None  # batches in flight; None: any number


@dataclass(frozen=True, kw_only=True)
class FirstPage:
    """What the first page tells, but for the charts."""

    summary: Summary
    health: Health
    backlog: Backlog
    pauses: tuple[Pause, ...]
    fleet: Fleet
    servers: tuple[ServerLine, ...]
    jobs: tuple[Job, ...]  # that run now
    at: datetime  # the database's time

    @property
    def is_late(self) -> bool:
        """Whether the oldest due message has waited for too long."""
        return self.backlog.oldest_due_seconds > self.health.limit

    @property
    def has_more_problems(self) -> bool:
        """Whether older failed or unknown emails are not counted: both share the limit."""
        return self.backlog.failed + self.backlog.unknown >= MOST_COUNTED

    @property
    def workers(self) -> tuple[WorkerDetails, ...]:
        """The living workers and beats, and the dead ones whose place nobody has taken."""
        known = (*self.fleet.workers, *self.fleet.beats)
        return tuple(one for one in known if one.state.is_living or one.is_missed)

    @property
    def busy(self) -> int:
        """How many workers ran a task when their row was last renewed."""
        return sum(one.state is WorkerState.BUSY for one in self.fleet.living)


def look() -> FirstPage:
    """Read how things stand."""
    runtime = state_of().runtime
    now = overview(runtime)
    return FirstPage(
        summary=summarise(now, _switched(runtime)),
        health=now.health,
        backlog=now.backlog,
        pauses=now.pauses,
        fleet=now.fleet,
        servers=_servers(now.health.servers, runtime.servers),
        jobs=Jobs().jobs(state=JobState.RUNNING, limit=_MOST_JOBS),
        at=now.at,
    )


def _switched(runtime: Runtime) -> Iterator[HealthLine]:
    """Yield what the app's settings keep from being sent as usual."""
    if runtime.sending_is_off():
        yield HealthLine(text=SUPPRESSED, code=Code.SUPPRESSED)
    if address := runtime.settings.redirect_to:
        yield HealthLine(text=redirect_line(address), code=Code.REDIRECT)


def _servers(
    found: tuple[ServerStatus, ...], configured: tuple[ServerSettings, ...]
) -> tuple[ServerLine, ...]:
    known = {server.name: server for server in configured}
    return tuple(_line(status, known.get(status.server)) for status in found)


def _line(status: ServerStatus, server: ServerSettings | None) -> ServerLine:
    if server is None:
        return ServerLine(status=status, rate="", cap=None)
    rate = server.rate
    told = f"{rate.permits:g} {_EACH.get(rate.seconds, f'in {rate.seconds:g} s')}" if rate else ""
    return ServerLine(status=status, rate=told, cap=server.connections)
