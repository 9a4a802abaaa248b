"""Takes parts out of a worker of the benchmark, so that a drain is measured without them.

The outbox has no setting for that. So the worker's process replaces the code before it forks. It
raises ValueError where the code is not as it is expected here: the drain would be the whole one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from importlib import import_module
from typing import Any


class Removable(StrEnum):
    """What can be taken out."""

    ROLLUP = "rollup"  # the counts of attempts: the appended rows, and their folds
    FLEET = "fleet"  # the row of each worker and its renewals
    JOBS = "jobs"  # the looks for what people have the workers do to many emails


WITHOUT = "BENCH_WITHOUT"
"""The key of the app's configuration that names what its workers leave out."""

STATEMENT = "outbox.store.postgresql.window_statement", "_STATEMENT"

_FOR_COUNTS = (
    r", counted AS \(\n    INSERT INTO \{tally\} .*?\n\)(?=, opened AS)",
    r", e\.lane, e\.priority, coalesce\(e\.send_at, e\.created_at\) AS due(?=\n)",
    r", w\.lane, w\.priority, w\.due(?=\n)",
)
"""What a window's statement has for the counts alone."""


def _nothing(*_: Any, **__: Any) -> bool:
    return False


REPLACED: dict[Removable, tuple[tuple[str, str], ...]] = {
    Removable.ROLLUP: (
        ("outbox.store.transitions.record", "count_logged"),
        ("outbox.store.transitions.rescue", "count_logged"),
        ("outbox.worker.tasks", "fold_tallies"),
    ),
    Removable.FLEET: (("outbox.worker.fleet.presence", "Presence.start"),),
    Removable.JOBS: (("outbox.worker.tasks", "take_turn"),),
}
"""Functions, each with its module, that do nothing afterwards."""


def remove(names: Iterable[str]) -> None:
    """Take these parts out of this process, for as long as it runs."""
    for removable in map(Removable, names):
        for module, name in REPLACED[removable]:
            _replace(module, name, lambda _: _nothing)
        if removable is Removable.ROLLUP:
            _replace(*STATEMENT, uncounted)


def uncounted(statement: str) -> str:
    """Return the statement of a window without what it has for the counts of attempts."""
    for pattern in _FOR_COUNTS:
        statement, found = re.subn(pattern, "", statement, flags=re.DOTALL)
        if found != 1:
            raise ValueError(f"a window's statement has {found} times {pattern}")
    return statement


def _replace(module: str, name: str, change: Callable[[Any], Any]) -> None:
    *outer, last = name.split(".")
    owner: Any = import_module(module)
    for each in outer:
        owner = getattr(owner, each)
    if last not in vars(owner):
        raise ValueError(f"{module} has no {name}")
    setattr(owner, last, change(vars(owner)[last]))
