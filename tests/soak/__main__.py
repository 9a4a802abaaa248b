"""`python -m tests.soak --minutes 30 [--seed N]`: soak, audit, print; exit 1 if a promise broke."""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from tests.soak import audit, facts, report
from tests.soak.classes import FOR_GOOD
from tests.soak.hosts.faults import Faults
from tests.soak.hosts.system import BEATS, WINDOW, System, running
from tests.soak.met import NO_CONNECTION, Logs
from tests.soak.plan import EVERY, FROZEN, KINDS, draw
from tests.support.waiting import wait_until

_RESULTS = Path(".soak")
_BY_CHANCE = 2.0
"""Minutes from which on it is no chance where nobody wrote an email that is refused for good."""


def main() -> int:
    """Run the soak; return the exit status."""
    arguments = _arguments()
    seed = arguments.seed if arguments.seed is not None else random.randrange(1_000_000)
    signal.signal(signal.SIGTERM, _interrupted)
    with TemporaryDirectory(prefix="outbox-soak-") as directory:
        try:
            with running(
                Path(directory),
                hosts=arguments.hosts,
                rate=arguments.rate,
                seconds=arguments.minutes * 60,
                namespaces=not arguments.processes,
            ) as system:
                return _soak(system, arguments, seed)
        except KeyboardInterrupt:
            print("interrupted; everything has been ended", file=sys.stderr)
            return 130


def _soak(system: System, arguments: argparse.Namespace, seed: int) -> int:
    seconds = arguments.minutes * 60
    kinds = [kind for kind in _possible(system) if kind in (arguments.only or KINDS)]
    plan = draw(seed, seconds, every=arguments.every, hosts=arguments.hosts, beats=BEATS,
                workers=len(system.workers), kinds=kinds)  # fmt: skip
    where = "network namespaces" if system.namespaces else "processes behind proxies"
    print(f"seed {seed}; {arguments.hosts} hosts as {where}; {len(plan)} kills and faults in "
          f"{seconds:g} s", flush=True)  # fmt: skip
    for kind in KINDS.keys() - set(_possible(system)):
        print(f"not possible here: {kind}")
    faults = Faults(system, threading.Event())
    began = time.monotonic()
    try:
        faults.play(plan, _teller(arguments.quiet))
        faults.over.wait(max(0.0, began + seconds - time.monotonic()))
    finally:
        faults.over.set()
    system.stop_load()
    trace: list[str] = []
    since = max(began + seconds, faults.last)
    recovery = _recover(system, since, arguments.patience or max(240.0, seconds), trace)
    return _audit(system, faults, recovery, {"seed": seed, "recovery": trace}, arguments)


def _possible(system: System) -> list[str]:
    lacking = set()
    if not system.namespaces:
        lacking.add("network unplugged")
    if not system.clocks:
        lacking.add("clock off")
    return [kind for kind in KINDS if kind not in lacking]


def _recover(system: System, since: float, patience: float, trace: list[str]) -> dict[str, float]:
    """Wait until nothing is due, and until every email has ended; return how long that took."""
    took: dict[str, float] = {}

    def look(until: int) -> facts.Backlog:
        system.watch()
        now, passed = facts.backlog(system.libpq(), until), time.monotonic() - since
        if passed >= len(trace):  # about one a second
            trace.append(f"{passed:.1f} s: {now}")
        if not now.due:
            took.setdefault("recovery: nothing was due after", passed)
        return now

    def is_over() -> bool:
        now = look(facts.last_mail(system.libpq()))
        return not now.left and not now.leases

    last = facts.last_mail(system.libpq())
    with suppress(TimeoutError):  # the audit says which emails have not ended
        with system.trickle():
            wait_until(lambda: not look(last).left, patience, "every email of the load to end")
            took["every email had ended after"] = time.monotonic() - since
        wait_until(is_over, patience, "every email to end")
    return took


def _audit(
    system: System,
    faults: Faults,
    recovery: dict[str, float],
    kept: dict[str, Any],
    arguments: argparse.Namespace,
) -> int:
    seed = kept["seed"]
    known = facts.read(system.libpq(), system.notes, system.told)
    known.met = _met(system, faults)
    if not arguments.only and arguments.minutes >= _BY_CHANCE:
        known.met |= {refusal.name: known.classes[refusal.name].times for refusal in FOR_GOOD}
    most = report.bound(faults.played, window=WINDOW, slots_of=system.slots_of,
                        slots=system.slots, dots=known.unanswered)  # fmt: skip
    verdict = audit.judge(known, most)
    numbers = report.figures(verdict, known, faults.played, recovery=recovery, died=system.died)
    if not verdict.holds:  # before the table, and named in the last line: logs are cut anywhere
        print(f"\n{report.findings(verdict)}")
    print(f"\n{report.table(numbers)}\n")
    everything: dict[str, Any] = {
        **kept,
        "minutes": arguments.minutes,
        "figures": numbers,
        "findings": verdict.findings,
        "counters": known.counters,
        "died": system.died,
        "faults": [str(fault) for fault in faults.played],
    }
    report.save(_RESULTS / f"{time.strftime('%Y%m%d-%H%M%S')}-{seed}.json", **everything)
    if system.died:
        _keep_logs(system)
    if verdict.holds:
        print(f"every promise held (seed {seed})")
        return 0
    print(f"broken with seed {seed}: the logs are in {_RESULTS / 'logs'}")
    print("NOT SO: " + "; ".join(verdict.findings))
    _keep_logs(system)
    return 1


def _met(system: System, faults: Faults) -> dict[str, int]:
    """Count how often somebody met each fault that a process has to notice."""
    kinds = [kind for kind in KINDS if kind in faults.met]
    met = {kind: faults.met[kind] for kind in kinds}
    if FROZEN in met:
        logs = [system.processes[system.starved].log]
        met["a pool without a connection"] = Logs(logs, NO_CONNECTION, whole=True).count()
    return met


def _keep_logs(system: System) -> None:
    logs = _RESULTS / "logs"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    for name, server in [*system.processes.items(), ("postgresql", system.postgres)]:
        shutil.copy(server.log, logs / name.replace(" ", "-"))
    for file in (system.notes, *system.told):
        shutil.copy(file, logs / file.name)


def _teller(quiet: bool) -> Any:
    return (lambda _: None) if quiet else (lambda line: print(line, flush=True))


def _interrupted(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="of load and faults")
    parser.add_argument("--seed", type=int, help="repeats the plan of faults that it draws")
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--rate", type=float, default=140.0, help="emails a second, of all hosts")
    parser.add_argument("--every", type=float, default=EVERY, help="seconds from fault to fault")
    parser.add_argument("--patience", type=float, help="seconds to the last mail")
    parser.add_argument("--only", action="append", choices=KINDS, help="only faults of this kind")
    parser.add_argument("--processes", action="store_true", help="hosts without own networks")
    parser.add_argument("--quiet", action="store_true", help="do not tell each fault")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
