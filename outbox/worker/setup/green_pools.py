"""What keeps a pool of greenlets from running tasks side by side: whatever blocks their thread."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sqlalchemy import Engine

NO_EVENTLET = (
    "a worker with the pool eventlet takes no task of the outbox, because eventlet removes"
    " select.poll, by which emails are sent: use -P gevent or -P threads"
)

_BLOCKING = {"mysqldb": "mysql+pymysql://", "mariadbconnector": "mariadb+pymysql://"}
"""Drivers that wait inside a C library, and what to use in their place."""

_PSYCOPG2 = ("psycopg2", "psycopg2cffi")


def is_gevent(pool: str) -> bool:
    """Return whether the pool, given as "gevent" or as "module:class", is that of gevent."""
    return _module(pool) == "gevent"


def is_eventlet(pool: str) -> bool:
    """Return whether the pool is that of eventlet, with which nothing of ours can run."""
    return _module(pool) == "eventlet"


def _module(pool: str) -> str:
    return pool.partition(":")[0].rpartition(".")[2]


def blocked(pool: str, engine: Engine) -> list[str]:
    """Return a line for each thing that would have all tasks of this process wait for one."""
    if not is_gevent(pool):
        return []
    found = (
        []
        if _is_patched()
        else [
            "the pool is gevent, but sockets are not patched: start the worker with -P gevent,"
            " because the setting worker_pool comes too late"
        ]
    )
    return found + waiting_driver(engine)


def waiting_driver(engine: Engine) -> list[str]:
    """Return a line if the database's driver has all greenlets wait for one statement."""
    driver, dialect = engine.dialect.driver, engine.dialect
    if driver in _BLOCKING:
        return [
            f"with the pool gevent the driver {dialect.name}+{driver} has all tasks of a worker"
            f" wait for each statement: use {_BLOCKING[driver]}"
        ]
    if driver in _PSYCOPG2 and not _waits_green(dialect.dbapi):
        return [
            f"with the pool gevent the driver {driver} has all tasks of a worker wait for each"
            " statement: call psycogreen.gevent.patch_psycopg(), or use postgresql+psycopg://"
        ]
    return []


def _waits_green(driver: Any) -> bool:
    return driver.extensions.get_wait_callback() is not None


def _is_patched() -> bool:
    return bool(import_module("gevent.monkey").is_module_patched("socket"))
