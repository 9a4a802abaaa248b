"""The life of a server, the same for all: start, stop, kill, freeze, and no trace afterwards."""

import os
import pwd
import shutil
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import ClassVar, Self

from tests.support.servers import family, leash
from tests.support.servers.family import Member
from tests.support.servers.warm import Warm
from tests.support.waiting import wait_until

UNPRIVILEGED = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
"""Who runs a program that refuses root."""

Fill = Callable[[str], None]
"""Creates tables in the empty database at this URL."""

disobeyed: list[str] = []
"""What had to be killed after a test, in words, until the test's report has it."""

_MEMORY = Path("/dev/shm")
_ENOUGH = 1 << 30  # bytes


class Server(ABC):
    """A program in a session and a directory of its own, as a context manager.

    Inside the context it answers; `stop`, `kill_9` and `start` may be called at will and keep the
    port and the data. After the context nothing of it is left: no process, no file.
    """

    name: ClassVar[str]
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    patience: ClassVar[float] = 30.0  # seconds to start, and to stop when asked politely
    must_obey: ClassVar[bool] = True  # False: one that must be killed after a test is told only
    owner: ClassVar[int | None] = None  # user id to run as, where root is refused

    directory: Path
    data: Path  # what a restart finds again
    durable: bool = True  # False: only the death of processes must be survived, so memory will do
    disk: Path | None = None  # where durable data is; None: where temporary files are, maybe memory
    _process: "subprocess.Popen[bytes] | Warm | None" = None
    _leader: Member | None = None
    _frozen: frozenset[Member] = frozenset()
    _log_start: int = 0

    def __enter__(self) -> Self:
        self.directory = self._new_directory(None)
        self.data = self._new_directory(self.disk if self.durable else memory())
        try:
            self.prepare()
            self.start()
        except BaseException:
            self._vanish()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._vanish()

    def prepare(self) -> None:  # noqa: B027  (most servers need nothing)
        """Make what the first start needs."""

    @abstractmethod
    def command(self) -> Sequence[str | Path]:
        """Return the program that runs in the foreground, with its arguments."""

    @abstractmethod
    def answers(self) -> bool:
        """Tell whether it serves a request now."""

    def environment(self) -> Mapping[str, str]:
        """Return what is set in addition to the test run's environment."""
        return {}

    def working_directory(self) -> Path:
        """Return where the program runs."""
        return self.directory

    @property
    def log(self) -> Path:
        """The file with everything that it prints, over all its starts."""
        return self.directory / "log"

    @property
    def groups(self) -> list[int] | None:
        """The further groups to run with: none for another user, those of the test run else."""
        return None if self.owner is None else []

    @property
    def pid(self) -> int:
        """The process that was started, parent of all the others."""
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process exists, frozen or not."""
        return self._process is not None and self._process.poll() is None

    def printed(self) -> str:
        """Return what it has printed since its last start."""
        return self.log.read_bytes()[self._log_start :].decode(errors="replace")

    def processes(self) -> set[Member]:
        """Return all its living processes."""
        if self._process is None:
            return set()
        found = family.family(self._process.pid)
        reused = {member for member in found if member.pid == self._process.pid} - {self._leader}
        return set() if reused else found

    def start(self) -> None:
        """Start it, on the same port and data as before; return when it answers."""
        assert not self.running, f"{self.name} runs already"
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self._process = self.launch()
        self._leader = family.look_up(self._process.pid)
        leash.hold(self._process.pid)
        try:
            wait_until(
                lambda: not self.running or self.answers(),
                self.patience,
                lambda: f"{self.name} to answer; it printed:\n{self.printed()[-4000:]}",
            )
            if not self.running:
                raise RuntimeError(f"{self.name} ended at its start:\n{self.printed()[-4000:]}")
        except BaseException:
            self.kill_9()
            raise

    def launch(self) -> "subprocess.Popen[bytes] | Warm":
        """Start its first process, at the head of a session of its own."""
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self.command(),
                cwd=self.working_directory(),
                env={**os.environ, **self.environment()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=self.owner,
                group=self.owner,
                extra_groups=self.groups,
            )

    def terminate(self) -> None:
        """Ask its parent process to end, and return at once."""
        os.kill(self.pid, self.stop_signal)

    def wait_exit(self, timeout: float | None = None) -> int:
        """Return the exit status once all its processes have ended; raise `TimeoutError`."""
        assert self._process is not None, f"{self.name} does not run"
        process, members = self._process, self.processes()
        patience = self.patience if timeout is None else timeout
        wait_until(
            lambda: not self.running and not family.living(members),
            patience,
            lambda: f"{self.name} to end; it printed:\n{self.printed()[-4000:]}",
        )
        self._forget()
        assert process.returncode is not None
        return process.returncode

    def stop(self, timeout: float | None = None) -> int:
        """End it politely and return its exit status; kill it and raise if it does not obey."""
        self.thaw()
        self.terminate()
        try:
            return self.wait_exit(timeout)
        except BaseException:
            self.kill_9()
            raise

    def kill_9(self) -> None:
        """Kill it and all its children with SIGKILL, at whatever instruction they are."""
        if self._process is None:
            return
        members = family.freeze(self._process.pid) if self.running else self.processes()
        family.kill(members | self._frozen)
        self._process.wait()
        self._forget()

    def freeze(self) -> None:
        """Stop all its processes where they are: connections stay open and nothing answers."""
        self._frozen = frozenset(family.freeze(self.pid))

    def thaw(self) -> None:
        """Let it run on."""
        family.thaw(self._frozen)
        self._frozen = frozenset()

    def _forget(self) -> None:
        if self._process is not None:
            leash.release(self._process.pid)
        self._process = self._leader = None
        self._frozen = frozenset()

    def _vanish(self) -> None:
        try:
            if self.running:
                self._end_politely()
        finally:
            self.kill_9()
            for directory in (self.directory, self.data):
                shutil.rmtree(directory, ignore_errors=True)
                leash.release(directory)

    def _end_politely(self) -> None:
        """Stop it. What does not obey was killed, and that is told: nobody would see the wait."""
        try:
            self.stop()
        except TimeoutError:
            if self.must_obey:
                raise
            disobeyed.append(f"{self.name} did not end in {self.patience:g} s, and was killed")

    def _new_directory(self, parent: Path | None) -> Path:
        directory = Path(mkdtemp(prefix=f"outbox-{self.name}-", dir=parent))
        leash.hold(directory)
        if self.owner is not None:
            os.chown(directory, self.owner, self.owner)
        return directory


def memory() -> Path | None:
    """Return where files cost no disk: for what has to survive processes and no power cut."""
    usable = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK)
    return _MEMORY if usable and shutil.disk_usage(_MEMORY).free > _ENOUGH else None
