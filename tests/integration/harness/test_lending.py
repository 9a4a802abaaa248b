"""A database that a test has used and given back is as a new one, or nobody gets it again."""

from __future__ import annotations

from contextlib import closing, suppress

import pytest
import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from tests.integration.harness.dumps import described, execute
from tests.support.servers.databases.lending import LendingServer
from tests.support.shop import schema
from tests.support.shop.shop import Shops

ORDER = "INSERT INTO orders (customer) VALUES ('Ada')"

UNCHECKED = "SET sql_mode = '', check_constraint_checks = 0"
REFUSED = {
    "postgresql": ("INSERT INTO outbox_content (size) VALUES (-1)",),
    "mariadb": (UNCHECKED, "INSERT INTO outbox_email (content_id) VALUES (1)"),
}
NEVER: dict[str, dict[str, tuple[str, ...]]] = {
    "rolled back": dict.fromkeys(REFUSED, ("BEGIN", ORDER, "ROLLBACK")),
    "refused": REFUSED,
}
"""What takes a number and leaves no row."""

LEFT = {
    "postgresql": {
        "a table": "CREATE TABLE mine (id int)",
        "a table that has gone": "DROP TABLE outbox_pause",
        "a column": "ALTER TABLE orders ADD note text",
        "an index": "CREATE INDEX mine ON orders (customer)",
        "a function": "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "a trigger": "CREATE TRIGGER faulty BEFORE UPDATE ON orders EXECUTE FUNCTION legal()",
        "a trigger that is off": "ALTER TABLE outbox_email DISABLE TRIGGER legal",
        "a sequence's step": "ALTER SEQUENCE orders_id_seq INCREMENT 2",
        "a right": "GRANT SELECT ON orders TO PUBLIC",
        "a comment": "COMMENT ON TABLE orders IS 'mine'",
        "a large object": "SELECT lo_create(0)",
        "statistics": "ANALYZE orders",
        "a vacuum": "VACUUM orders",
        "counts from zero": "SELECT pg_stat_reset()",
        "a setting": 'ALTER DATABASE "{name}" SET lock_timeout = 50',
        "a limit": 'ALTER DATABASE "{name}" CONNECTION LIMIT 9',
        "a right to the database": 'GRANT CREATE ON DATABASE "{name}" TO PUBLIC',
    },
    "mariadb": {
        "a table": "CREATE TABLE mine (id int)",
        "a table that has gone": "DROP TABLE outbox_pause",
        "a column": "ALTER TABLE orders ADD note text",
        "an index": "CREATE INDEX mine ON orders (customer)",
        "a function": "CREATE FUNCTION mine() RETURNS int DETERMINISTIC RETURN 1",
        "a trigger": "CREATE TRIGGER faulty BEFORE UPDATE ON orders FOR EACH ROW SET NEW.id = 1",
        "a trigger that has gone": "DROP TRIGGER legal",
        "an event": "CREATE EVENT mine ON SCHEDULE EVERY 1 DAY DO SELECT 1",
        "statistics": "ANALYZE TABLE orders",
        "counts from zero": "FLUSH TABLE_STATISTICS",
        "another collation": "ALTER DATABASE `{name}` COLLATE utf8mb4_bin",
    },
}
"""What a test may leave that is more than rows."""

PREPARED = {
    "postgresql": ("BEGIN", ORDER, "PREPARE TRANSACTION 'mine'"),
    "mariadb": ("XA START 'mine'", ORDER, "XA END 'mine'", "XA PREPARE 'mine'"),
}
UNDONE = {"postgresql": "ROLLBACK PREPARED 'mine'", "mariadb": "XA ROLLBACK 'mine'"}

ENDING = {
    "postgresql": "SELECT concat('SELECT pg_terminate_backend(', pid, ')') FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    "mariadb": "SELECT concat('KILL ', id) FROM information_schema.processlist"
    " WHERE db IS NULL AND command = 'Sleep'",
}
"""What gives the statements that end a watch's session."""


@pytest.fixture
def server(database_url: str, request: pytest.FixtureRequest) -> LendingServer:
    """The session's server of this turn."""
    backend = sa.make_url(database_url).get_backend_name()
    fixture = {"postgresql": "postgres", "mariadb": "mariadb"}[backend]
    made: LendingServer = request.getfixturevalue(fixture)
    return made


def next_one(server: LendingServer) -> str:
    """Return what the next test would get."""
    url = server.lend_database(schema.fill)
    server.take_back(url)
    return url


@pytest.mark.long
@pytest.mark.databases("postgresql", "mariadb")
def test_a_database_with_rows_comes_back_as_a_new_one(server: LendingServer) -> None:
    new = server.new_database(schema.fill)
    expected = described(server, new)
    server.drop_database(new)
    url = server.lend_database(schema.fill)
    assert described(server, url) == expected
    use(url)
    assert described(server, url) != expected
    server.take_back(url)
    assert server.lend_database(schema.fill) == url
    assert described(server, url) == expected
    execute(url, ORDER)
    assert execute(url, "SELECT id, customer FROM orders") == [(1, "Ada")]
    server.take_back(url)


def use(url: str) -> None:
    """Do in a shop what writes to many of its tables."""
    with closing(Shops(url=url)) as shops:
        shop = shops.open()
        shop.lose(shop.enqueue("a@customers.example", "b@customers.example").id)
        shop.enqueue()
        with shop.session() as session:
            shop.order(session)
            shop.outbox.cancel(tag="none", session=session)
            session.commit()
        with shop.engine.begin() as connection:
            connection.execute(sa.delete(shop.orders))


@pytest.mark.databases("postgresql", "mariadb")
@pytest.mark.parametrize("how", ["rolled back", "refused"])
def test_what_never_was_has_taken_no_number(server: LendingServer, how: str) -> None:
    url = server.lend_database(schema.fill)
    expected = described(server, url)
    with suppress(sa.exc.IntegrityError):
        execute(url, *NEVER[how][server.name])
    assert described(server, url) != expected
    server.take_back(url)
    assert server.lend_database(schema.fill) == url
    assert described(server, url) == expected
    server.take_back(url)


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize("what", LEFT["postgresql"])
def test_a_postgresql_with_more_than_rows_is_dropped(server: LendingServer, what: str) -> None:
    is_dropped(server, LEFT["postgresql"][what])


@pytest.mark.databases("mariadb")
@pytest.mark.parametrize("what", LEFT["mariadb"])
def test_a_mariadb_with_more_than_rows_is_dropped(server: LendingServer, what: str) -> None:
    is_dropped(server, LEFT["mariadb"][what])


def is_dropped(server: LendingServer, statement: str) -> None:
    """Nobody gets a database again in which a test has executed this."""
    url = server.lend_database(schema.fill)
    execute(url, ORDER, statement.format(name=sa.make_url(url).database))
    server.take_back(url)
    assert next_one(server) != url
    with pytest.raises(sa.exc.OperationalError, match=r"does not exist|Unknown database"):
        execute(url, "SELECT 1")


@pytest.mark.databases("postgresql", "mariadb")
def test_a_database_that_nobody_watched_is_dropped(server: LendingServer) -> None:
    url = server.lend_database(schema.fill)
    execute(url, *(statement for (statement,) in execute(url, ENDING[server.name])))
    server.take_back(url)
    assert next_one(server) != url


@pytest.mark.databases("postgresql", "mariadb")
def test_a_database_is_dropped_if_somebody_stays(server: LendingServer) -> None:
    url = server.lend_database(schema.fill)
    engine = sa.create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT 1")) == 1
        server.take_back(url)
        assert next_one(server) != url
        connection.invalidate()


@pytest.mark.databases("postgresql", "mariadb")
def test_a_database_with_a_prepared_transaction_is_not_emptied(server: LendingServer) -> None:
    url = server.new_database(schema.fill)
    watch = server.watch(url)
    watch.begin()
    execute(url, *PREPARED[server.name])
    try:
        assert watch.others() or not watch.empty()
    finally:
        watch.close()
        execute(url, UNDONE[server.name])
        server.drop_database(url)


@pytest.mark.databases("postgresql", "mariadb")
def test_a_database_that_is_filled_with_rows_is_not_emptied(server: LendingServer) -> None:
    url = server.lend_database(with_an_order)
    assert execute(url, "SELECT id FROM orders") == [(1,)]
    server.take_back(url)
    assert server.lend_database(with_an_order) != url


def with_an_order(url: str) -> None:
    """Fill a database with more than tables."""
    schema.fill(url)
    execute(url, ORDER)
