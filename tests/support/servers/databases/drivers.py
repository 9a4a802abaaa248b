"""The same database by way of another driver."""

from __future__ import annotations

from importlib.util import find_spec

from sqlalchemy import make_url

from tests.support.servers.missing import missing

ASYNCHRONOUS = {
    "sqlite": ("aiosqlite",),
    "postgresql": ("asyncpg", "psycopg"),
    "mariadb": ("asyncmy",),
}
"""The drivers over which an app's AsyncSession enqueues."""

_MODULES = {
    "mysqldb": ("MySQLdb", "apt install gcc libmariadb-dev pkg-config; pip install mysqlclient")
}
"""The modules of drivers that do not come with the tests' packages, and how to get them."""


def over(url: str, driver: str) -> str:
    """Return the URL of this database over the driver. The test is skipped if that is missing."""
    module, remedy = _MODULES.get(driver, ("", ""))
    if module and find_spec(module) is None:
        missing(driver, remedy)
    made = make_url(url)
    made = made.set(drivername=f"{made.get_backend_name()}+{driver}")
    made = made.difference_update_query(["ssl_disabled"])  # PyMySQL's own
    return made.render_as_string(hide_password=False)
