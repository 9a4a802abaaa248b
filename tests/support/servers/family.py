"""A process and all that came of it, also what moved to a session of its own (Linux, /proc)."""

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.waiting import wait_until


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """A process that no reused process id can be taken for."""

    pid: int
    started: int

    def send(self, number: signal.Signals) -> None:
        """Send a signal if the process still exists."""
        if living([self]):
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Facts:
    state: str
    parent: int
    session: int


def family(root: int) -> set[Member]:
    """Return the living processes of `root`'s session, and everything that descends from them."""
    processes = _processes()
    found = {member for member, facts in processes.items() if root in (member.pid, facts.session)}
    while True:
        pids = {member.pid for member in found}
        more = {member for member, facts in processes.items() if facts.parent in pids} - found
        if not more:
            return found
        found |= more


def look_up(pid: int) -> Member | None:
    """Return the living process with this number."""
    look = _look(pid)
    return look[0] if look else None


def living(members: Iterable[Member]) -> set[Member]:
    """Return those that still run; a zombie does not."""
    return {member for member in members if (now := _look(member.pid)) and now[0] == member}


def freeze(root: int) -> set[Member]:
    """Stop the whole family, also what is born meanwhile; return it once nothing in it moves."""
    members: set[Member] = set()

    def all_stand_still() -> bool:
        newborn = family(root) - members
        for member in newborn:
            member.send(signal.SIGSTOP)
        members.update(newborn)
        return not newborn and _all_stopped(members)

    wait_until(all_stand_still, 10, f"process {root} and its children to stand still")
    return members


def thaw(members: Iterable[Member]) -> None:
    """Let every member run on."""
    for member in members:
        member.send(signal.SIGCONT)


def kill(members: Iterable[Member]) -> None:
    """Kill every member with SIGKILL and return when none is left."""
    doomed = set(members)
    for member in doomed:
        member.send(signal.SIGKILL)
    wait_until(lambda: not living(doomed), 10, lambda: f"the end of {living(doomed)}")


def _all_stopped(members: set[Member]) -> bool:
    looks = (_look(member.pid) for member in members)
    return all(look[1].state in "Tt" for look in looks if look and look[0] in members)


def _processes() -> dict[Member, _Facts]:
    pids = (int(entry) for entry in os.listdir("/proc") if entry.isdecimal())
    return dict(look for pid in pids if (look := _look(pid)))


def _look(pid: int) -> tuple[Member, _Facts] | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[0] in "ZX":
        return None
    member = Member(pid=pid, started=int(fields[19]))
    return member, _Facts(state=fields[0], parent=int(fields[1]), session=int(fields[3]))
