"""The tables that the shops of one process share: to make them takes longer than most tests.

Each test has a database and an engine of its own, and SQLAlchemy builds and compiles every
statement once for each engine and each set of tables. The statements are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, NoReturn

import sqlalchemy as sa

from outbox.store.connection.database import Database
from outbox.worker.process.runtime import Runtime


class Compiled(dict[Any, Any]):
    """Compiled statements for all engines of one kind: SQLAlchemy's key begins with the engine's
    own dialect, and dialects of one kind compile alike."""

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        return super().get(key[1:], default)

    def __setitem__(self, key: tuple[Any, ...], compiled: Any) -> None:
        super().__setitem__(key[1:], compiled)


class Late(BaseException):
    """A thread of a test that is over used its database, which may be another test's by now."""


class Over(Database):
    """The database of a test that is over: nobody gets a connection."""

    def _lent(self, isolation: str) -> NoReturn:
        raise Late(isolation)


@dataclass(kw_only=True)
class SharedTables:
    """Tables, and what has been built and compiled of them. One shop at a time adds to it."""

    metadata: sa.MetaData = field(default_factory=sa.MetaData)
    compiled: Compiled = field(default_factory=Compiled)
    _first: Database | None = None
    _is_lent: bool = False
    _known: dict[str, Any] | None = None

    def apart(self) -> SharedTables:
        """Return the same tables, for shops that build each statement for themselves.

        What is compiled is kept by what stands in a statement, so none of them gets a wrong one.
        """
        return SharedTables(metadata=self.metadata, compiled=self.compiled, _known=self._known)

    def engine(self, url: str) -> sa.Engine:
        """Return a new engine, which compiles nothing anew and asks the server nothing anew."""
        engine = sa.create_engine(url, execution_options=self.options)
        self._introduce(engine)
        return engine

    @property
    def options(self) -> dict[str, Any]:
        """The execution options of an engine that compiles no statement anew."""
        return {"compiled_cache": self.compiled}

    def _introduce(self, engine: sa.Engine) -> None:
        """Have a dialect know what one before it asked the server at its first connection."""
        dialect = engine.dialect
        if self._known is not None:
            vars(dialect).update(self._known, initialize=lambda _: None)
            if dialect.name in ("mariadb", "mysql"):  # a database is a schema there
                dialect.default_schema_name = engine.url.database
            return
        before, ask = dict(vars(dialect)), dialect.initialize

        def initialize(connection: sa.Connection) -> None:
            ask(connection)
            del vars(dialect)["initialize"]
            self._known = {
                name: value
                for name, value in vars(dialect).items()
                if before.get(name) is not value
            }

        vars(dialect)["initialize"] = initialize

    def lend(self, runtime: Runtime) -> None:
        """Have a shop's database know what those before it have built, where it is free."""
        if self._is_lent:
            return
        new, self._is_lent = runtime.database, True
        if self._first is None:
            self._first = new
            return
        offset = self._first._offset  # what is built looks there
        offset.__class__, offset.__dict__ = type(new._offset), vars(new._offset)
        new._built, new._offset = self._first._built, offset

    def take_back(self) -> None:
        """Note that all shops are closed."""
        self._is_lent = False


def end(runtime: Runtime) -> None:
    """Have a thread that is late fail, and not touch what the next test writes."""
    if (database := vars(runtime).get("database")) is not None:
        database.__class__ = Over


@cache
def shared_over(driver: str, *, measured: bool) -> SharedTables:
    """Return what is shared by all tests over this driver that are measured, or are not.

    Only what runs in a measured test counts as covered: so those build for themselves.
    """
    return SharedTables()
