"""Real servers for the tests: each starts when a test first asks for it, and ends with the run."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.servers import authority as certificates
from tests.servers import sqlite
from tests.servers.authority import Authority
from tests.servers.catcher import Catcher
from tests.servers.mariadb import MariaDB
from tests.servers.postgres import Postgres
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.redis import RedisServer
from tests.servers.server import memory
from tests.servers.smtp_sink import SmtpSink

# Its assertions tell what differs, as those in a test's own file do.
pytest.register_assert_rewrite("tests.verdicts.play")

DATABASES = ("sqlite", "postgresql", "mariadb")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a person run one database only: `pytest --database sqlite`."""
    parser.addoption("--database", action="append", choices=DATABASES, help="only on this database")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker that restricts `database_url`."""
    config.addinivalue_line(
        "markers", "databases(*names): run on these databases only, not on all of them"
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many inputs `tests/fuzz` has tried."""
    tried = Counter[str]()
    for report in terminalreporter.getreports("passed"):
        for name, told in report.user_properties:
            if name == "inputs":
                tried[told[0]] += told[1]
    for source, inputs in tried.items():
        terminalreporter.write_line(f"inputs tried: {inputs:>6} {source}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that uses `database_url`, itself or through a fixture, on each database."""
    if "database_url" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("databases")
    wanted = marker.args if marker else DATABASES
    assert set(wanted) <= set(DATABASES), f"unknown database in {metafunc.definition.nodeid}"
    allowed = metafunc.config.getoption("--database") or DATABASES
    names = [name for name in DATABASES if name in wanted and name in allowed]
    metafunc.parametrize("database_url", names, indirect=True)


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
def rabbitmq() -> Iterator[RabbitMQ]:
    """A RabbitMQ for all tests; its start takes seconds."""
    with RabbitMQ() as server:
        yield server


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
