"""Which process this is, and whether another one of this host has ended.

A process id alone comes again. With the kernel's boot and the process's start it never does.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path

from ...domain.fleet import ProcessId

_PROC = Path("/proc")
_STATE, _START = 0, 19
"""Fields of /proc/…/stat after the command's name (proc_pid_stat(5): the third and the 22nd)."""
_ENDED = ("Z", "X")


def host() -> str:
    """Return this host's name."""
    return socket.gethostname()


@cache
def this_boot() -> str:
    """Return what tells the process ids of this boot from all others; "" where it is not known.

    Containers on one kernel have one boot id, and process ids of their own. So the number of their
    namespace is a part of it. In a time namespace of its own, a container also sees other starts of
    the same processes.
    """
    with suppress(OSError):
        if os.readlink(_PROC / "self") != str(os.getpid()):
            return ""  # a namespace of process ids that has another one's /proc
        kernel = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return " ".join([kernel, _namespace("pid"), *_time_namespace()])
    return ""


def _time_namespace() -> list[str]:
    with suppress(FileNotFoundError):  # Linux before 5.6 has none
        return [_namespace("time")]
    return []


def _namespace(kind: str) -> str:
    """Return the number of this process's namespace, as in `pid:[4026531836]`."""
    return os.readlink(_PROC / "self/ns" / kind).strip(f"{kind}:[]")


def start_of(pid: int) -> int:
    """Return when a process started, in clock ticks after the boot; 0 where it is not known."""
    found = _stat(pid)
    return int(found[_START]) if found else 0


def process_of(pid: int) -> ProcessId | None:
    """Return what names the process that has this id now; None where this host does not tell."""
    boot, start = this_boot(), start_of(pid)
    return ProcessId(boot, pid, start) if boot and start else None


def own_process() -> ProcessId | None:
    """Return what names this process, as `process_of`."""
    return _own(os.getpid())


@cache
def _own(pid: int) -> ProcessId | None:
    return process_of(pid)


def has_ended(process: ProcessId) -> bool:
    """Return whether this process is known to have ended; of another host nothing is known."""
    if not process.boot or process.boot != this_boot() or not process.start:
        return False
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # it is another user's, and lives
    found = _stat(process.pid)  # of another user's process it may be hidden
    return bool(found) and (found[_STATE] in _ENDED or int(found[_START]) != process.start)


def _stat(pid: int) -> list[str]:
    with suppress(OSError):
        # The command's name, in parentheses, may have any character.
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return []
