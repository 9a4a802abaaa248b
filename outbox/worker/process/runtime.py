"""What a task needs from its app: settings, database, SMTP connections and the broker."""

from __future__ import annotations

import gc
import itertools
import os
import random
import socket
import weakref
from collections.abc import Callable, Iterable
from functools import cached_property

from celery import Celery
from celery.signals import worker_process_init, worker_process_shutdown, worker_shutdown
from flask import Flask
from sqlalchemy import Engine

from ...domain.config.routing import Routes
from ...domain.config.servers import ServerSettings
from ...domain.config.settings import Settings
from ...domain.delivery.reach import Reach
from ...domain.errors import ConfigurationError
from ...domain.fleet import ProcessId
from ...domain.scheduling.lanes import Lanes
from ...store.connection.database import Database
from ...store.connection.drivers import in_memory
from ...store.encryption.cipher import Cipher
from ...store.encryption.tombstones import Tombstones
from ...store.harmless_log import harmless_log
from ...store.queries.inspect_schema import elsewhere
from ...store.queries.sweep.low_water_mark import LowWater
from ...store.schema.tables import Tables
from ...store.transitions.window import advance_together
from ..broker.publisher import Publisher
from ..broker.queues import MOST_SENDS, SWEEP_QUEUE
from ..email_signals import Receivers
from ..forks import without_forks
from ..instance_guard import InstanceGuard
from ..leases.heartbeats import Heartbeats
from ..together.calm import Calm
from ..together.job_pace import JobPace
from ..together.recorder import Recorder
from ..together.rounds import Rounds
from ..together.seldom import Seldom
from ..together.turns import Turns
from .connections import Connections
from .kept_threads import KeptThreads, wait_at_end
from .last_tasks import LastTasks
from .nudge import GAP, Nudge
from .own_process import own_process
from .retry_writes import TOLD_EVERY
from .slots import Slots
from .steady_clock import steady
from .unended import Unended
from .unrecorded import Unrecorded

RECYCLED = 0x9B
"""How a process of the pool ends that has had its number of tasks, or its memory: billiard's
`EX_RECYCLE`. That module would take each web process time."""

NO_CELERY = (
    "this Flask app has no Celery app: call outbox.celery_config.configure(celery_app, flask_app),"
    ' or put it into app.extensions["celery"]'
)


class Runtime:
    """The library's parts for one Flask app. Nothing is opened before it is used."""

    def __init__(
        self,
        *,
        app: Flask,
        settings: Settings,
        servers: tuple[ServerSettings, ...],
        routes: Routes,
        tables: Tables,
        engine: Callable[[], Engine],
        engines: Callable[[], Iterable[Engine]],
        celery: Callable[[], Celery | None],
        sending_is_off: Callable[[], bool] = lambda: False,
    ) -> None:
        self.app = app
        self.settings = settings
        self.servers = servers
        self.routes = routes
        self.tables = tables
        self.cipher = Cipher(settings.encryption_keys)
        self.lanes = Lanes(
            rate=settings.rate, domains=settings.domain_rates or {}, routes=routes.buckets
        )
        self.random: Callable[[], float] = random.Random().random  # noqa: S311  (jitter)
        self.clock: Callable[[], float] = steady
        self.reach = Reach(lambda: self.clock())
        self.connections = Connections(servers, self.reach, lambda: self.clock)
        self.low_water = LowWater(lambda: self.clock())
        self.turns = Turns()
        self.instance = InstanceGuard(
            lambda: self.database, settings.instance, clock=lambda: self.clock()
        )
        self.slots = Slots(lambda: self.settings.slots, lambda: self.database, lambda: self.clock())
        self.last_tasks = LastTasks()
        self.seldom = Seldom(lambda: self.clock())
        self.calm = Calm(lambda: self.clock())
        self.has_jobs = False  # as the last sweep of this process saw it
        self.has_rescued = False  # the last sweep of this process freed emails after its look
        self.has_hard_limit = False  # Celery kills a process whose task takes too long
        self.job_pace = JobPace()
        self.nudge = Nudge(self.publish_sweep, gap=GAP)
        self.heartbeats = Heartbeats(
            lambda: self.database,
            term=lambda: self.settings.lease,
            clock=lambda: self.clock(),
            tells=lambda what: self.seldom.is_due(f"leases: {what}", TOLD_EVERY),
        )
        self.recorder = Recorder(
            lambda changes: advance_together(self.database, changes, worker=self.worker)
        )
        self.rounds = Rounds(lambda: self.clock())
        self.unrecorded = Unrecorded(
            lambda: self.database, lambda: self.worker, term=lambda: self.settings.lease
        )
        self.late_replies = KeptThreads("outbox-late-reply")
        self.unended = Unended(lambda: self.database, lambda: self.worker)
        self.find_celery = celery
        self.sending_is_off = sending_is_off  # then nothing is claimed, and no SMTP is spoken
        self._engine = engine
        self._engines = engines
        self.number = next(_numbers)
        _runtimes.add(self)

    @cached_property
    def database(self) -> Database:
        """The outbox's tables on the app's engine."""
        database = Database(
            self._engine(),
            self.tables,
            patience=self.settings.lease / 3,
            audience=Receivers(self.app),
            cipher=self.cipher,
            tombstones=Tombstones(self.settings.erase_key or self.app.config.get("SECRET_KEY")),
            elsewhere=elsewhere,
        )
        self.instance.watch(database.engine)
        return database

    @property
    def worker(self) -> str:
        """The name of this process in the attempt log: host and process id."""
        return f"{socket.gethostname()}:{os.getpid()}"

    @property
    def process(self) -> ProcessId | None:
        """What names this process for all time; None where this host does not tell."""
        return own_process()

    def publish(self, task: str, queue: str, *args: str) -> bool:
        """Publish a task with bounded waits, unless its queue is full; as `Publisher.send`."""
        most = MOST_SENDS + self.slots()
        with without_forks():
            return self._publisher.send(task, queue, *args, most=most, origin=self.instance.id)

    def publish_sweep(self) -> bool:
        """Publish a sweep, unless one waits: that one will see all that is committed by now.

        Return False if one waits that no worker has taken yet.
        Where sending is off, as in tests, no broker is asked. With `task_always_eager` the
        sweep runs here, and sends. But a database in memory is left alone, because this thread
        would write in the app's own transaction.
        """
        with without_forks():  # it asks Celery for its settings, too, perhaps as the first
            if self.sending_is_off():
                return True
            if not self.is_eager:
                origin = self.instance.id
                return self._publisher.send("outbox.sweep", SWEEP_QUEUE, most=1, origin=origin)
        if not in_memory(self.database.engine):
            self.celery_app.tasks["outbox.sweep"].apply(throw=True)
        return True

    @property
    def is_eager(self) -> bool:
        """Whether Celery runs tasks where they are called, as some do in development."""
        app = self.find_celery()
        return app is not None and bool(app.conf.task_always_eager)

    @property
    def celery_app(self) -> Celery:
        """The Celery app. Raises ConfigurationError where there is none."""
        app = self.find_celery()
        if app is None:
            raise ConfigurationError(NO_CELERY)
        return app

    @cached_property
    def _publisher(self) -> Publisher:
        return Publisher(self.celery_app)

    def wait_for_writes(self, *, is_asked: bool = True) -> None:
        """Wait for what finished batches have left, because the process ends.

        The reply to a content is waited for as long as it may take: without it the email would be
        in doubt. What is only to be written then has `GRACE` seconds if the process `is_asked` to
        end, and else longer: see `wait_at_end`. An exception that ends the process, as SIGTERM and
        Ctrl-C raise it, asks, too.
        """
        try:
            self.late_replies.wait(max(one.dot_timeout for one in self.servers))
            self._wait_for_writes(is_asked=is_asked)
        except BaseException:
            self._wait_for_writes(is_asked=True)
            raise

    def _wait_for_writes(self, *, is_asked: bool) -> None:
        late, unrecorded = self.late_replies, self.unrecorded

        def is_away() -> bool:
            return unrecorded.is_away or not late.wait(0.0)  # that one's reply is known by now

        kept = (late, unrecorded, self.unended)
        if not wait_at_end(kept, is_asked=is_asked, is_away=is_away):
            lost = unrecorded.lost_line(late.count)
            harmless_log.warning("outbox: the process ends, and %s", lost)

    def disconnect(self) -> None:
        """Close the connection to the broker, and the SMTP connections that no batch is using."""
        if "_publisher" in self.__dict__:
            self._publisher.close()
        self.connections.close_idle()

    def renew_locks(self) -> None:
        """Make new locks after a fork: a lock that another thread held would never be released."""
        self.connections.renew_lock()
        self.heartbeats.after_fork()
        self.recorder.after_fork()
        self.rounds.after_fork()
        self.turns.after_fork()
        if "database" in self.__dict__:
            self.database.after_fork()
        self.nudge.renew_lock()
        if "_publisher" in self.__dict__:
            self._publisher.renew_lock()

    def before_forks(self) -> None:
        """Close the database connections that this process has open and nobody uses.

        SQLite notes in the process's memory that it has locked a file. A child would have a copy of
        that note, and lock nothing itself. When the parent is gone, another process takes the file
        for its own, and deletes the log (WAL) to which the child writes.
        """
        for engine in self._engines():
            if not in_memory(engine):
                engine.dispose()

    def after_fork(self) -> None:
        """Forget the parent's database connections without closing them.

        This is done for all engines of the app. If the app used any of them before the fork, that
        engine has a connection that two processes must not share.
        """
        for engine in self._engines():
            engine.dispose(close=False)


_runtimes: weakref.WeakSet[Runtime] = weakref.WeakSet()
_numbers = itertools.count()


def runtimes() -> list[Runtime]:
    """Return the runtimes of this process in the order in which they were made."""
    return sorted(_runtimes, key=lambda runtime: runtime.number)


def _after_fork(**_: object) -> None:
    for runtime in runtimes():
        runtime.after_fork()
    # What the parent loaded lives as long as this process. The garbage collector would visit all of
    # it every few thousand emails, and so copy the memory that both processes share.
    gc.freeze()


def _renew_locks() -> None:
    for runtime in runtimes():
        runtime.renew_locks()


def _before_exit(exitcode: int | None = None, **_: object) -> None:
    """Wait for what is left, and longer where nobody has asked this process to end."""
    for runtime in runtimes():
        runtime.wait_for_writes(is_asked=exitcode != RECYCLED)
        runtime.disconnect()


worker_process_init.connect(_after_fork)
worker_process_shutdown.connect(_before_exit)
worker_shutdown.connect(_before_exit)
if hasattr(os, "register_at_fork"):  # Windows has neither it nor forks
    os.register_at_fork(after_in_child=_renew_locks)
