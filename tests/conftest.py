"""Real servers for the tests: each starts when a test first asks for it, and ends with the run."""

import gc
import os
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import flask
import flask_mail
import pytest
from hypothesis import HealthCheck, settings

from tests.support import measuring
from tests.support.dealing import deal
from tests.support.matrix import thin_out
from tests.support.servers import authority as certificates
from tests.support.servers.authority import Authority
from tests.support.servers.brokers.broker import Broker
from tests.support.servers.brokers.rabbitmq import RabbitMQ
from tests.support.servers.brokers.redis import RedisServer
from tests.support.servers.databases import sqlite
from tests.support.servers.databases.drivers import over
from tests.support.servers.databases.mariadb import MariaDB
from tests.support.servers.databases.postgres import Postgres
from tests.support.servers.server import disobeyed, memory
from tests.support.servers.smtp.catcher import Catcher
from tests.support.servers.smtp.smtp_sink import SmtpSink
from tests.support.turns import (
    DRIVERS,
    add_options,
    leave_out,
    on_its_servers,
    register,
)

# Its assertions tell what differs, as those in a test's own file do.
pytest.register_assert_rewrite("tests.support.verdicts.play")

FIGURES = "figures"
"""The property of a test under which `record_property` keeps a line for the end of the run."""

KILLED = "killed"
"""The property under which a test's report has what did not end when it was asked to."""

INPUTS = "inputs"
"""The property under which a fuzzing test keeps its source of input, and how many it has tried."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a person choose databases and brokers."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers that say where a test runs; choose how much is tried."""
    register(config)
    gc.set_threshold(1_000_000)  # what is imported and collected stays: to look through it is vain
    # Time decides no test: on a slow machine an example, or the making of examples, takes longer.
    settings.register_profile("part", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("few", settings.get_profile("part"), max_examples=20)
    settings.register_profile("whole", settings.get_profile("part"), max_examples=500)
    settings.load_profile("whole" if config.getoption("--whole") else "part")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on the servers that it says."""
    on_its_servers(metafunc)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Choose what is run and what is measured, and deal the tests to the processes."""
    thin_out(items)
    yield  # `-m` and `-k` leave out theirs
    measuring.choose(config, items)
    leave_out(config, items)
    items[:] = deal(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Measure the test and its fixtures, or neither."""
    measuring.switch(item)


def pytest_collection_finish() -> None:
    """Have the collector pass over what is imported, and come less often: a fifth of the time."""
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Have the report tell what had to be killed after the test."""
    yield
    while disobeyed:
        item.user_properties.append((KILLED, f"{item.nodeid}: {disobeyed.pop()}"))


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
    ends = terminalreporter.stats.get("", [])  # the reports of set-up and teardown
    for name, line in (one for report in ends for one in report.user_properties):
        if name == KILLED:
            terminalreporter.write_line(line)
    tried = Counter[str]()
    for source, inputs in (line for name, line in told if name == INPUTS):
        tried[source] += inputs
    for source, number in tried.items():
        terminalreporter.write_line(f"inputs tried: {number:>6} {source}")


@pytest.fixture(scope="module")
def flask_mail_context() -> Iterator[None]:
    """A context in which Flask-Mail makes messages.

    Its `Mail` also has every MIMEText of the process write UTF-8 as it is.
    """
    app = flask.Flask("test")
    flask_mail.Mail(app)
    with app.app_context():
        yield


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
def database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The SQLAlchemy URL of a fresh database; the test runs once on each database.

    It is empty, and for a test that opens shops it has their tables.
    """
    fill = request.getfixturevalue("shop_tables") if "shops" in request.fixturenames else None
    if request.param == "sqlite":
        with TemporaryDirectory(prefix="outbox-sqlite-", dir=memory()) as directory:
            yield sqlite.new_database(Path(directory), fill)
        return
    database = DRIVERS.get(request.param, request.param)
    fixture = {"postgresql": "postgres", "mariadb": "mariadb"}[database]
    server: Postgres | MariaDB = request.getfixturevalue(fixture)
    url = server.new_database() if fill is None else server.lend_database(fill)
    yield over(url, request.param) if request.param in DRIVERS else url
    server.drop_database(url) if fill is None else server.take_back(url)


@pytest.fixture(scope="session")
def _redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def redis(_redis: RedisServer) -> Iterator[RedisServer]:
    """An empty Redis; the test may stop, kill or freeze it."""
    yield _redis
    _restore(_redis)


@pytest.fixture(scope="session")
def _rabbitmq() -> Iterator[RabbitMQ]:
    with RabbitMQ() as server:
        yield server


@pytest.fixture
def rabbitmq(_rabbitmq: RabbitMQ) -> Iterator[RabbitMQ]:
    """A RabbitMQ without our queues; the test may stop, kill or freeze it."""
    yield _rabbitmq
    _restore(_rabbitmq)


def _restore(broker: Broker) -> None:
    """Have it run and be empty, whatever a test did to it."""
    broker.thaw()
    if not broker.running:
        broker.start()
    broker.empty()


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Broker:
    """The broker of this turn, empty; the test may stop, kill or freeze it."""
    server: Broker = request.getfixturevalue(request.param)
    return server


@pytest.fixture
def smtp_sink() -> Iterator[SmtpSink]:
    """A server that accepts all emails at full speed and counts them."""
    with SmtpSink() as server:
        yield server


@pytest.fixture
def catcher() -> Iterator[Catcher]:
    """An SMTP server that remembers the emails it accepts; can be stopped, held, made to refuse."""
    with Catcher() as server:
        yield server


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A certificate authority, and TLS servers that it vouches for."""
    return certificates.found(tmp_path_factory.mktemp("ca"))
