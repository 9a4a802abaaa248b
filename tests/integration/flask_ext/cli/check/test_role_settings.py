"""What `flask outbox` says where a setting of PostgreSQL is in the way, of a role or a database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from celery import Celery
from flask import Flask
from sqlalchemy.orm import Session

from outbox import ConfigurationError, Outbox
from outbox.flask_ext.app.state import state_of
from outbox.worker import tasks
from tests.support.shop.shell import parsed
from tests.support.shop.shop import message

pytestmark = pytest.mark.databases("postgresql")

Admin = Callable[..., None]
ON = "SET default_transaction_read_only = on"
SETTING = "default_transaction_read_only is on"


@pytest.fixture
def admin(database_url: str) -> Iterator[Admin]:
    """Runs statements as the owner of the database."""
    engine = sa.create_engine(database_url, isolation_level="AUTOCOMMIT")

    def run(*statements: str) -> None:
        with engine.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    yield run
    engine.dispose()


@pytest.fixture
def database(database_url: str) -> str:
    return str(sa.make_url(database_url).database)


@pytest.fixture
def role(admin: Admin, database: str) -> Iterator[str]:
    """A role of the app's own, which may use and make tables in the schema `shopping`."""
    name = f"app_{database}"
    admin(f"CREATE ROLE {name} LOGIN", f"CREATE SCHEMA shopping AUTHORIZATION {name}")
    yield name
    admin(f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}")


@contextmanager
def opened(
    url: str, role: str, metadata: sa.MetaData | None = None, **options: Any
) -> Iterator[Flask]:
    """Open an app that logs in with this role."""
    engine = sa.create_engine(sa.make_url(url).set(username=role), **options)
    app = Flask("shop")
    app.extensions["celery"] = Celery("shop", set_as_current=False)
    Outbox().init_app(app, metadata=metadata or sa.MetaData(), engine=engine)
    yield app
    state_of(app).runtime.disconnect()
    engine.dispose()


def make_tables(app: Flask) -> None:
    runtime = state_of(app).runtime
    runtime.tables.email.metadata.create_all(runtime.database.engine)


def errors(app: Flask) -> dict[str, str]:
    """Return what `check` finds to be wrong, by code; it exits with 1 then."""
    found = app.test_cli_runner().invoke(args=["outbox", "check", "--json"])
    wrong = {one["code"]: one["text"] for one in parsed(found) if one["level"] == "error"}
    assert found.exit_code == bool(wrong)
    return wrong


def told(app: Flask) -> str:
    """Return all that `check` says."""
    return app.test_cli_runner().invoke(args=["outbox", "check"]).output


SETTINGS = [
    (f"ALTER ROLE {{role}} {ON}", "ALTER ROLE {role} RESET default_transaction_read_only"),
    pytest.param(
        f"ALTER DATABASE {{database}} {ON}",
        "ALTER DATABASE {database} RESET",
        marks=pytest.mark.long,
    ),
    pytest.param(
        f"ALTER ROLE {{role}} IN DATABASE {{database}} {ON}",
        "ALTER ROLE {role} IN DATABASE",
        marks=pytest.mark.long,
    ),
]


@pytest.mark.long
@pytest.mark.parametrize(("statement", "remedy"), SETTINGS)
def test_a_setting_that_refuses_writes_is_an_error_that_names_it(
    admin: Admin, role: str, database: str, database_url: str, statement: str, remedy: str
) -> None:
    admin(f"ALTER ROLE {role} SET search_path = shopping")
    with opened(database_url, role) as app:
        make_tables(app)
        assert "read-only" not in errors(app)
    names = {"role": role, "database": database}
    set_on = statement.format(**names)
    admin(set_on)
    try:
        with opened(database_url, role) as app:
            line = errors(app)["read-only"]
            assert SETTING in line
            assert remedy.format(**names) in line
            assert "replica" not in told(app)
            assert "Pgpool" not in told(app)
    finally:
        admin(set_on.replace(ON, "RESET default_transaction_read_only"))
    with opened(database_url, role) as app:
        assert "read-only" not in errors(app)


@pytest.mark.long
def test_a_connection_that_is_read_only_by_its_options_is_told_to_drop_them(
    admin: Admin, role: str, database_url: str
) -> None:
    admin(f"ALTER ROLE {role} SET search_path = shopping")
    with opened(database_url, role) as app:
        make_tables(app)
    options = {"options": "-c default_transaction_read_only=on"}
    with opened(database_url, role, connect_args=options) as app:
        assert "by the connection's options" in errors(app)["read-only"]


@pytest.mark.long
def test_tables_outside_of_the_search_path_are_not_told_to_be_migrated(
    admin: Admin, role: str, database_url: str
) -> None:
    admin(f"ALTER ROLE {role} SET search_path = shopping")
    with opened(database_url, role) as app:
        make_tables(app)
        assert "schema" not in errors(app)
    admin(f"ALTER ROLE {role} SET search_path = newplace, public")
    expected = (
        "the outbox's tables stand in the schema shopping, which the search_path of this role"
        " (newplace, public) does not name: mend it"
    )
    with opened(database_url, role) as app:
        assert errors(app)["schema"].startswith(f"schema: {expected}")
        run = app.test_cli_runner().invoke
        for command in ("health", "stats", "list", "drain"):
            found = run(args=["outbox", command])
            assert (found.exit_code, expected in found.output) == (1, True), command
            assert "run your migrations" not in found.output
        celery: Celery = app.extensions["celery"]
        with pytest.raises(ConfigurationError, match="stand in the schema shopping"):
            celery.tasks[tasks.sweep.name].run()


CALLS: dict[str, Callable[[Outbox, Session], object]] = {
    "get": lambda outbox, _: outbox.get(1),
    "list": lambda outbox, _: outbox.list(),
    "stats": lambda outbox, _: outbox.stats(),
    "counts": lambda outbox, _: outbox.counts(),
    "retry": lambda outbox, _: outbox.retry(1),
    "pause": lambda outbox, _: outbox.pause(),
    "enqueue": lambda outbox, session: outbox.enqueue(message(), session=session),
    "enqueue_many": lambda outbox, session: outbox.enqueue_many([message()], session=session),
    "cancel": lambda outbox, session: outbox.cancel(id=1, session=session),
}


@pytest.mark.matrix
@pytest.mark.parametrize("call", CALLS)
def test_python_is_told_the_schema_that_the_search_path_misses_too(
    admin: Admin, role: str, database_url: str, call: str
) -> None:
    """Also where the caller's transaction has the only connection of the pool."""
    admin(f"ALTER ROLE {role} SET search_path = shopping")
    one: dict[str, Any] = {"pool_size": 1, "max_overflow": 0, "pool_timeout": 0.1}
    with opened(database_url, role, **one) as app:
        make_tables(app)
    admin(f"ALTER ROLE {role} SET search_path = newplace, public")
    with (
        opened(database_url, role, **one) as app,
        app.app_context(),
        Session(state_of(app).runtime.database.engine) as session,
        pytest.raises(ConfigurationError, match="stand in the schema shopping, which the") as met,
    ):
        CALLS[call](Outbox(), session)
    assert "run your migrations" not in str(met.value)


@pytest.mark.long
def test_a_schema_that_the_role_may_not_use_is_told_with_the_grant(
    admin: Admin, role: str, database_url: str
) -> None:
    admin(f"ALTER ROLE {role} SET search_path = shopping")
    with opened(database_url, role) as app:
        make_tables(app)
        admin(
            "ALTER SCHEMA shopping OWNER TO CURRENT_USER",
            f"REVOKE ALL ON SCHEMA shopping FROM {role}",
        )
        grant = f"GRANT USAGE ON SCHEMA shopping TO {role}"
        assert grant in errors(app)["privileges"]
        assert grant in app.test_cli_runner().invoke(args=["outbox", "health"]).output


@pytest.mark.long
def test_tables_of_other_tenants_do_not_stand_in_the_way_of_a_new_schema(
    admin: Admin, role: str, database_url: str
) -> None:
    """A schema that is named is meant; and where each tenant has its tables, all is well."""
    with opened(database_url, role, sa.MetaData(schema="shopping")) as app:
        make_tables(app)
    admin(f"CREATE SCHEMA tenant AUTHORIZATION {role}")
    with opened(database_url, role, sa.MetaData(schema="tenant")) as app:
        assert "run your migrations" in errors(app)["schema"]
        make_tables(app)
        assert "schema" not in errors(app)
        assert "shopping" not in told(app)
