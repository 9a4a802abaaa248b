"""Run a command and fail if anything that it started outlives it: `python -m … COMMAND`.

The kernel hands every orphaned descendant to this process (PR_SET_CHILD_SUBREAPER, Linux), also
one that made itself a daemon, so none can hide.
"""

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.servers import family
from tests.support.servers.family import Member
from tests.support.waiting import wait_until

_PR_SET_CHILD_SUBREAPER = 36
_GRACE = 5.0  # seconds that a process may take to end after the command


def run(command: list[str]) -> int:
    """Return the command's exit status, or 70 if it left processes behind; those are killed."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with subprocess.Popen(command) as process:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _frame: process.send_signal(number))
        status = process.wait()
    try:
        wait_until(lambda: not _survivors(), _GRACE, "all to end")
    except TimeoutError:
        left = _survivors()
        for member in left:
            print(f"left running: {member.pid} {_command_line(member)}", file=sys.stderr)
        family.kill(left)
        return status or 70
    print(f"{' '.join(command)}: status {status}, nothing left running", file=sys.stderr)
    return status


def _survivors() -> set[Member]:
    return {member for member in family.family(os.getpid()) if member.pid != os.getpid()}


def _command_line(member: Member) -> str:
    try:
        words = Path(f"/proc/{member.pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "(gone)"
    return b" ".join(words).decode(errors="replace")


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
