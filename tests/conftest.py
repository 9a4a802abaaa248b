"""Real servers for the tests: each starts when a test first asks for it, and ends with the run."""

import gc
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

import pytest

from tests.servers import authority as certificates
from tests.servers import sqlite
from tests.servers.authority import Authority
from tests.servers.broker import Broker
from tests.servers.catcher import Catcher
from tests.servers.mariadb import MariaDB
from tests.servers.postgres import Postgres
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.redis import RedisServer
from tests.servers.server import memory
from tests.servers.smtp_sink import SmtpSink

# Its assertions tell what differs, as those in a test's own file do.
pytest.register_assert_rewrite("tests.verdicts.play")

_TESTS = Path(__file__).parent
_ACCEPTANCE = _TESTS / "acceptance"
_MEASURED = ("unit", "integration")
_OVER_AND_OVER = (
    "test_conclusion_invariants.py",
    "test_corpus.py",
    "test_kill_switch.py",
    "test_machine.py",
    "test_verdicts.py",
)

DATABASES = ("sqlite", "postgresql", "mariadb")
BROKERS = ("redis", "rabbitmq")
_SERVERS = {*DATABASES, *BROKERS}

FIGURES = "figures"
"""The property of a test under which `record_property` keeps a line for the end of the run."""

INPUTS = "inputs"
"""The property under which a fuzzing test keeps its source of input, and how many it has tried."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a person run one of them only: `pytest --database sqlite --broker rabbitmq`."""
    parser.addoption("--database", action="append", choices=DATABASES, help="only on this database")
    parser.addoption("--broker", action="append", choices=BROKERS, help="on this broker, all of it")
    parser.addoption("--whole", action="store_true", help="all on every database and broker")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers that restrict `database_url` and `broker`."""
    for kind in ("database", "broker"):
        config.addinivalue_line(
            "markers", f"{kind}s(*names): run on these {kind}s only, not on all of them"
        )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let the databases and the brokers take turns, and measure coverage where a line is run first.

    Only the store knows one database from another: its tests, and those that kill, run on each.
    All others run on one of them, another for each case. `--whole` runs all on all, which on two
    cores does not end in CI's time; nor would the suite if coverage was measured everywhere.
    """
    # Under `--no-cov` pytest-cov would pause what it never started.
    for item in [] if config.getoption("no_cov", default=False) else items:
        if not _is_measured(item):
            item.add_marker("no_cover")
    if not config.getoption("--whole"):
        kept = {item for turns in _turns(items) for item in turns}
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]


def _turns(items: list[pytest.Item]) -> Iterator[list[pytest.Item]]:
    """Yield what is to run of each case: all of its turns, or one that its name decides."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(_case(item), []).append(item)
    for name, turns in cases.items():
        yield turns if _is_run_on_each(turns) else [turns[crc32(name.encode()) % len(turns)]]


def _case(item: pytest.Item) -> str:
    """Return the test's name without its database and its broker."""
    test, _, turn = item.nodeid.rstrip("]").partition("[")
    servers = _SERVERS if _ACCEPTANCE in item.path.parents else DATABASES
    return "-".join([test, *(part for part in turn.split("-") if part not in servers)])


def _is_run_on_each(turns: Sequence[pytest.Item]) -> bool:
    match turns[0].path.relative_to(_TESTS).parts:
        case ("acceptance", *_):  # each database with one of the brokers, one alone with both
            return len({item.name.partition("[")[2].split("-")[0] for item in turns}) > 1
        case ("integration", *folders, file):
            return "machine" in folders or "store" in file or "kill_switch" in file
        case _:
            return True


def pytest_collection_finish() -> None:
    """Have the collector pass over what is imported, and come less often: a fifth of the time."""
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


def _is_measured(item: pytest.Item) -> bool:
    place = item.path.relative_to(_TESTS)
    return place.parts[0] in _MEASURED and place.name not in _OVER_AND_OVER


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures of the tests that measure or count, also those of other processes."""
    reports = [
        report for key in ("passed", "failed") for report in terminalreporter.stats.get(key, [])
    ]
    told = [told for report in reports for told in report.user_properties]
    if lines := sorted(line for name, line in told if name == FIGURES):
        terminalreporter.section("figures")
        for line in lines:
            terminalreporter.line(line)
    tried = Counter[str]()
    for source, inputs in (line for name, line in told if name == INPUTS):
        tried[source] += inputs
    for source, number in tried.items():
        terminalreporter.write_line(f"inputs tried: {number:>6} {source}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what uses `database_url`, itself or through a fixture, on each database.

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


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL for all tests, without fsync. A test that kills one starts its own."""
    with Postgres(durable=False) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    """A MariaDB for all tests, without flushes. A test that kills one starts its own."""
    with MariaDB(durable=False) as server:
        yield server


@pytest.fixture
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The SQLAlchemy URL of a fresh, empty database; the test runs once on each database."""
    if request.param == "sqlite":
        with TemporaryDirectory(prefix="outbox-sqlite-", dir=memory() or tmp_path) as directory:
            yield sqlite.new_database(Path(directory))
        return
    fixture = {"postgresql": "postgres", "mariadb": "mariadb"}[request.param]
    server: Postgres | MariaDB = request.getfixturevalue(fixture)
    url = server.new_database()
    yield url
    server.drop_database(url)


@pytest.fixture(scope="session")
def _redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def redis(_redis: RedisServer) -> Iterator[RedisServer]:
    """An empty Redis; the test may stop, kill or freeze it."""
    yield _redis
    _redis.thaw()
    if not _redis.running:
        _redis.start()
    _redis.flushall()


@pytest.fixture(scope="session")
def _rabbitmq() -> Iterator[RabbitMQ]:
    with RabbitMQ() as server:
        yield server


@pytest.fixture
def rabbitmq(_rabbitmq: RabbitMQ) -> Iterator[RabbitMQ]:
    """A RabbitMQ without our queues; the test may stop, kill or freeze it."""
    yield _rabbitmq
    _rabbitmq.thaw()
    if not _rabbitmq.running:
        _rabbitmq.start()
    _rabbitmq.empty()


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Broker:
    """The broker of this turn, empty; the test may stop, kill or freeze it."""
    server: Broker = request.getfixturevalue(request.param)
    return server


@pytest.fixture
def smtp_sink() -> Iterator[SmtpSink]:
    """A server that accepts all mails at full speed and counts them."""
    with SmtpSink() as server:
        yield server


@pytest.fixture
def catcher() -> Iterator[Catcher]:
    """An SMTP server that remembers the mails it accepts; can be stopped, held, made to refuse."""
    with Catcher() as server:
        yield server


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A certificate authority, and TLS servers that it vouches for."""
    return certificates.found(tmp_path_factory.mktemp("ca"))
