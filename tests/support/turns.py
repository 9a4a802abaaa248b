"""Which test runs on which databases and brokers, as it says itself.

A test that uses `database_url`, itself or through a fixture, says on which databases it runs, at
itself or for its file:

- `@pytest.mark.each_database`: on each, for what is about the database;
- `@pytest.mark.one_database("postgresql")`: on this one, for what no database changes. `--whole`
  runs it on all, and `--database mariadb` there;
- `@pytest.mark.databases("postgresql", "mariadb")`: on each of these, for what the others have not.

So it is with `broker`: `each_broker`, `one_broker`, `brokers`.

A test runs over the usual driver of its database. With `@pytest.mark.each_driver` it runs over the
other ones as well, and with `@pytest.mark.drivers("psycopg2")` over that one alone. `--database
psycopg2` runs over that driver whatever can run on its database, but for what is marked
`usual_driver`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest

DATABASES = ("sqlite", "postgresql", "mariadb")
DRIVERS = {"psycopg2": "postgresql", "mysqldb": "mariadb"}
"""The other drivers, each with its database. The usual ones are psycopg and PyMySQL."""
BROKERS = ("redis", "rabbitmq")
QUICK = ("sqlite", "postgresql", "redis")
"""The servers of `make test`, as the Makefile says."""

_KINDS = {"database_url": ("database", DATABASES), "broker": ("broker", BROKERS)}


def add_options(parser: pytest.Parser) -> None:
    """Let a person run one of them only: `pytest --database sqlite --broker rabbitmq`."""
    databases = [*DATABASES, *DRIVERS]
    parser.addoption("--database", action="append", choices=databases, help="only on this database")
    parser.addoption("--broker", action="append", choices=BROKERS, help="on this broker, all of it")
    parser.addoption("--whole", action="store_true", help="all, on every database and broker")
    parser.addoption("--rest", action="store_true", help="only what `make test` leaves out")


def register(config: pytest.Config) -> None:
    """Register the markers that say where a test runs."""
    for kind in ("database", "broker"):
        for marker in (
            f"each_{kind}: run on each {kind}",
            f"one_{kind}(name): run on this {kind}; on all with --whole",
            f"{kind}s(*names): run on each of these {kind}s and never on another",
        ):
            config.addinivalue_line("markers", marker)
    for marker in (
        "each_driver: run over the other drivers of its databases, too",
        "drivers(*names): run over each of these drivers only",
        "usual_driver: never run over another driver, which lacks what is tested",
        "over_and_over: runs the same lines very often, so that coverage is not measured",
        "long: takes seconds, or a whole system: left out by `make test`",
        "matrix: `make test` runs it with each value of each parameter, not each combination",
    ):
        config.addinivalue_line("markers", marker)


def on_its_servers(metafunc: pytest.Metafunc) -> None:
    """Have a test run on the databases and the brokers that it says.

    What uses both runs on each database and on each broker, and not on each pair of them: nothing
    of ours knows both.
    """
    used = {name: kind for name, kind in _KINDS.items() if name in metafunc.fixturenames}
    turns = list(product(*(_wanted(metafunc, *kind) for kind in used.values())))
    databases, brokers = ({turn[place] for turn in turns if len(turn) == 2} for place in (0, 1))
    if len(brokers) > 1 and not metafunc.config.getoption("--broker"):
        turns = [turn for turn in turns if _is_run(turn[0], turn[1], databases)]
    if used:
        metafunc.parametrize(tuple(used), turns, indirect=True)


def _wanted(metafunc: pytest.Metafunc, kind: str, known: Sequence[str]) -> list[str]:
    config, test = metafunc.config, metafunc.definition
    names = {f"each_{kind}", f"one_{kind}", f"{kind}s"}
    names |= {"drivers"} if kind == "database" else set()
    said = [(node, mark) for node, mark in test.iter_markers_with_node() if mark.name in names]
    if not said:
        pytest.fail(f"{test.nodeid} says no {kind}: see tests/support/turns.py", pytrace=False)
    closest = {mark.name: mark for node, mark in said if node is said[0][0]}
    able = next((mark.args for _, mark in said if mark.name == f"{kind}s"), known)
    asked = config.getoption(f"--{kind}")
    allowed = asked or (*known, *DRIVERS)
    if "drivers" in closest:
        return [name for name in closest["drivers"].args if name in allowed]
    left = [name for name in known if name in able and name in allowed]
    has_others = asked or test.get_closest_marker("each_driver")
    if kind == "database" and has_others and not test.get_closest_marker("usual_driver"):
        left += [name for name, of in DRIVERS.items() if of in able and name in allowed]
    if (one := closest.get(f"one_{kind}")) and not config.getoption("--whole"):
        assert one.args[0] in able, f"{test.nodeid} cannot run on {one.args[0]}"
        return list(one.args) if one.args[0] in left else left[:1]
    return left


def _is_run(database: str, broker: str, databases: set[str]) -> bool:
    """RabbitMQ takes MariaDB's turn where a test has it, and is one turn more where it has not."""
    databases = databases & {*DATABASES} or databases
    if "mariadb" in databases:
        return (database == "mariadb") == (broker == "rabbitmq")
    return broker == "redis" or database == max(databases, key=(*DATABASES, *DRIVERS).index)


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what can run on none of the servers that `--database` and `--broker` allow.

    With `--rest` also what `make test` runs.
    """
    rest = config.getoption("--rest")
    left = [item for item in items if is_homeless(item) or (rest and is_quick(item))]
    config.hook.pytest_deselected(items=left)
    gone = set(left)
    items[:] = [item for item in items if item not in gone]


def is_homeless(item: pytest.Item) -> bool:
    """Whether none of its servers is allowed."""
    return "NOTSET" in item.name  # pytest's word for no turn


def is_quick(item: pytest.Item) -> bool:
    """Whether `make test` runs it."""
    callspec = getattr(item, "callspec", None)
    used = [callspec.params[name] for name in _KINDS if name in callspec.params] if callspec else []
    return item.get_closest_marker("long") is None and all(server in QUICK for server in used)
