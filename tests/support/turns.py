"""Which test runs on which database and broker, and what is measured of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from zlib import crc32

import pytest

_TESTS = Path(__file__).parents[1]
_ACCEPTANCE = _TESTS / "acceptance"
_MEASURED = ("unit", "integration")
_OVER_AND_OVER = (
    "test_blame.py",
    "test_outcome_invariants.py",
    "test_corpus.py",
    "test_corpus_through_postfix.py",
    "test_flask_mail_through_postfix.py",
    "test_kill_switch.py",
    "test_machine.py",
    "test_round_trips.py",
    "test_verdicts.py",
)

DATABASES = ("sqlite", "postgresql", "mariadb")
BROKERS = ("redis", "rabbitmq")
_SERVERS = {*DATABASES, *BROKERS}


def on_each_server(metafunc: pytest.Metafunc) -> None:
    """Have what uses `database_url`, itself or through a fixture, run on each database.

    So it is with `broker`. What uses both runs on each database and on each broker, and not on each
    pair of them: nothing of ours knows both.
    """
    kinds = {"database_url": ("database", DATABASES), "broker": ("broker", BROKERS)}
    used = {name: kind for name, kind in kinds.items() if name in metafunc.fixturenames}
    turns = list(product(*(_wanted(metafunc, *kind) for kind in used.values())))
    if len(used) == 2 and not metafunc.config.getoption("--broker"):
        databases = {turn[0] for turn in turns}
        turns = [turn for turn in turns if _is_run(turn[0], turn[1], databases)]
    if used:
        metafunc.parametrize(tuple(used), turns, indirect=True)


def _wanted(metafunc: pytest.Metafunc, kind: str, known: Sequence[str]) -> list[str]:
    marker = metafunc.definition.get_closest_marker(f"{kind}s")
    wanted = marker.args if marker else known
    assert set(wanted) <= set(known), f"unknown {kind} in {metafunc.definition.nodeid}"
    allowed = metafunc.config.getoption(f"--{kind}") or known
    return [name for name in known if name in wanted and name in allowed]


def _is_run(database: str, broker: str, databases: set[str]) -> bool:
    """RabbitMQ takes MariaDB's turn where a test has it, and is one turn more where it has not."""
    if "mariadb" in databases:
        return (database == "mariadb") == (broker == "rabbitmq")
    return broker == "redis" or database == max(databases, key=DATABASES.index)


def take_turns(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let the databases and the brokers take turns, and measure coverage where a line is run first.

    Only the store knows one database from another: its tests and those that kill run on each. All
    others run on one of them, another for each case. `--whole` runs all on all, which on two cores
    does not end in CI's time. Coverage is measured in one turn of each case: it doubles the time of
    a test.
    """
    whole = config.getoption("--whole")
    left_out = set[pytest.Item]()
    for name, turns in _cases(items).items():
        own = _own_turn(name, turns)
        others = [item for item in turns if item is not own]
        if not whole and not _is_run_on_each(turns):
            left_out.update(others)
        # Under `--no-cov` pytest-cov would pause what it never started.
        if not config.getoption("no_cov", default=False):
            for item in others if _is_measured(own) else turns:
                item.add_marker("no_cover")
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def _cases(items: Sequence[pytest.Item]) -> dict[str, list[pytest.Item]]:
    """Return the turns of each case: the test with its parameters, on one server or another."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(_case(item), []).append(item)
    return cases


def _case(item: pytest.Item) -> str:
    """Return the test's name without its database and its broker."""
    test, _, turn = item.nodeid.rstrip("]").partition("[")
    servers = _SERVERS if _ACCEPTANCE in item.path.parents else DATABASES
    return "-".join([test, *(part for part in turn.split("-") if part not in servers)])


def _own_turn(name: str, turns: Sequence[pytest.Item]) -> pytest.Item:
    """Return the turn that is a case's own, and is measured: as it is marked, or by its name."""
    if marker := turns[0].get_closest_marker("turn"):
        return next((item for item in turns if marker.args[0] in item.name), turns[0])
    return turns[crc32(name.encode()) % len(turns)]


def _is_run_on_each(turns: Sequence[pytest.Item]) -> bool:
    match turns[0].path.relative_to(_TESTS).parts:
        case ("acceptance", *_):
            return False
        case ("integration", *folders, _):
            return "machine" in folders or "store" in folders
        case _:
            return True


def _is_measured(item: pytest.Item) -> bool:
    place = item.path.relative_to(_TESTS)
    return place.parts[0] in _MEASURED and place.name not in _OVER_AND_OVER
