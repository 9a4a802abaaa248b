"""What keeps a pool of greenlets from running tasks side by side: whatever blocks their thread."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sqlalchemy import Engine

_NAMES = ("gevent", "eventlet")

_BLOCKING = {"mysqldb": "mysql+pymysql://", "mariadbconnector": "mariadb+pymysql://"}
"""Drivers that wait inside a C library, and what to use in their place."""

_PSYCOPG2 = ("psycopg2", "psycopg2cffi")


def green(pool: str) -> str | None:
    """Return "gevent" or "eventlet" for these pools, given as "gevent" or as "module:class"."""
    module = pool.partition(":")[0].rpartition(".")[2]
    return module if module in _NAMES else None


def blocked(pool: str, engine: Engine) -> list[str]:
    """Return a line for each thing that would have all tasks of this process wait for one."""
    name = green(pool)
    if name is None:
        return []
    found = (
        []
        if _is_patched(name)
        else [
            f"the pool is {name}, but sockets are not patched: start the worker with -P {name},"
            " because the setting worker_pool comes too late"
        ]
    )
    return found + waiting_driver(name, engine)


def waiting_driver(name: str, engine: Engine) -> list[str]:
    """Return a line if the database's driver has all greenlets wait for one statement."""
    driver, dialect = engine.dialect.driver, engine.dialect
    if driver in _BLOCKING:
        return [
            f"with the pool {name} the driver {dialect.name}+{driver} has all tasks of a worker"
            f" wait for each statement: use {_BLOCKING[driver]}"
        ]
    if driver in _PSYCOPG2 and not _waits_green(dialect.dbapi):
        return [
            f"with the pool {name} the driver {driver} has all tasks of a worker wait for each"
            f" statement: call psycogreen.{name}.patch_psycopg(), or use postgresql+psycopg://"
        ]
    return []


def _waits_green(driver: Any) -> bool:
    return driver.extensions.get_wait_callback() is not None


def _is_patched(name: str) -> bool:
    if name == "eventlet":
        return bool(import_module("eventlet.patcher").is_monkey_patched("socket"))
    return bool(import_module("gevent.monkey").is_module_patched("socket"))
