"""`flask outbox check` names each privilege that a user of MariaDB lacks, with its GRANTs."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
import sqlalchemy as sa

from outbox.store.connection.database import Database
from outbox.store.queries.inspect_schema import lacking_privileges
from outbox.store.schema.tables import define
from outbox.store.schema.version import VERSION, is_mark
from tests.integration.flask_ext.cli.check.test_check import with_celery
from tests.support.shop.shell import parsed, runner
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.databases("mariadb")

TABLES = sorted(table.name for table in define(sa.MetaData()).email.metadata.tables.values())
EVERYTHING = "SELECT, INSERT, UPDATE, DELETE"


class Owner:
    """The owner of the tables, who has made a user for the app."""

    def __init__(self, url: str) -> None:
        self.engine = sa.create_engine(url)
        self.user, self.role = f"app_{uuid4().hex[:12]}", f"role_{uuid4().hex[:12]}"
        self.database = str(self.engine.url.database)
        self.run(f"CREATE USER {self.user}", f"CREATE ROLE {self.role}")
        self.run(f"GRANT ALL ON orders TO {self.user}")  # the app's own; it lets the user in, too

    def run(self, *statements: str) -> None:
        with self.engine.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement.replace("%", "%%"))

    def grant_each(self, *without: str) -> None:
        """Grant everything on each of these tables."""
        names = [name for name in TABLES if name not in without]
        self.run(*(f"GRANT {EVERYTHING} ON {name} TO {self.user}" for name in names))

    def lent(self) -> sa.Engine:
        """Return an engine of the user's."""
        return sa.create_engine(self.engine.url.set(username=self.user))

    def line(self, privileges: str, *tables: str) -> str:
        """Return what is told of these."""
        user = f"'{self.user}'@'%'"
        grants = [f"GRANT {privileges} ON `{self.database}`.`{one}` TO {user}" for one in tables]
        return f"the user {user} lacks a privilege: {'; '.join(grants)}"

    def mend(self, line: str) -> None:
        """Run what a line says."""
        self.run(*line.partition(": ")[2].split("; "))

    def close(self) -> None:
        self.run(f"DROP USER {self.user}", f"DROP ROLE {self.role}")
        self.engine.dispose()


@pytest.fixture
def shop(shops: Shops) -> Shop:
    """A shop of the owner: the tables exist."""
    return shops.open()


@pytest.fixture
def owner(shop: Shop, database_url: str) -> Iterator[Owner]:
    owner = Owner(database_url)
    yield owner
    owner.close()


def lacking(engine: sa.Engine) -> list[str]:
    found = lacking_privileges(Database(engine, define(sa.MetaData())))
    engine.dispose()
    return found


def test_check_names_what_is_missing_and_its_grant_mends_it(shops: Shops, owner: Owner) -> None:
    owner.grant_each()
    shop = shops.open_on(owner.lent())
    with_celery(shop).conf.broker_url = "memory://"
    for taken, *tables in (
        ("DELETE", "outbox_email"),
        ("INSERT", "outbox_attempt"),
        ("SELECT, UPDATE", "outbox_instance", "outbox_tally"),
    ):
        owner.run(*(f"REVOKE {taken} ON {one} FROM {owner.user}" for one in tables))
        findings = parsed(runner(shop)("check", "--json", code=1))
        (told,) = (one for one in findings if one["level"] == "error")
        assert (told["code"], told["text"]) == ("privileges", owner.line(taken, *tables))
        owner.mend(told["text"])
        assert "privileges" not in {one["code"] for one in parsed(runner(shop)("check", "--json"))}


def test_a_user_with_no_privilege_on_most_tables_is_told_all_in_one_line(owner: Owner) -> None:
    owner.run(f"GRANT SELECT ON {TABLES[0]} TO {owner.user}")
    first, rest = lacking(owner.lent())
    assert (len(TABLES), first) == (22, owner.line("INSERT, UPDATE, DELETE", TABLES[0]))
    assert rest == owner.line(EVERYTHING, *TABLES[1:])
    owner.mend(first)
    owner.mend(rest)
    assert lacking(owner.lent()) == []


def test_a_privilege_on_some_columns_does_not_do(owner: Owner) -> None:
    owner.grant_each("outbox_email")
    owner.run(f"GRANT SELECT, INSERT, UPDATE (status), DELETE ON outbox_email TO {owner.user}")
    assert lacking(owner.lent()) == [owner.line("UPDATE", "outbox_email")]


def test_it_counts_whatever_gives_a_privilege(owner: Owner) -> None:
    """Such as a role's grant on all databases of a pattern."""
    pattern = owner.database[:-1] + "_"
    owner.run(
        f"GRANT {EVERYTHING} ON `{pattern}`.* TO {owner.role}",
        f"GRANT {owner.role} TO {owner.user}",
        f"SET DEFAULT ROLE {owner.role} FOR {owner.user}",
    )
    assert lacking(owner.lent()) == lacking(sa.create_engine(owner.engine.url)) == []


def test_a_table_that_is_missing_is_no_lacking_privilege(owner: Owner) -> None:
    owner.run(
        f"GRANT {EVERYTHING} ON {owner.database}.* TO {owner.user}", "DROP TABLE outbox_worker"
    )
    assert lacking(owner.lent()) == []


def test_a_migration_that_was_forgotten_is_told_first(
    shop: Shop, shops: Shops, owner: Owner
) -> None:
    """Who has a grant for each table is not told that a new one is missing, but refused it."""
    owner.grant_each("outbox_worker")
    [mark] = [index for index in shop.tables.pause.indexes if is_mark(index.name)]
    mark.drop(shop.engine)
    owner.run("DROP TABLE outbox_worker")
    output = runner(shops.open_on(owner.lent()))("check", code=1).output
    older = output.index(f"the database's schema is version 0, the code's {VERSION}")
    assert older < output.index(owner.line(EVERYTHING, "outbox_worker"))
