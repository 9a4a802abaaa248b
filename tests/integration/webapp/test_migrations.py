"""The shop's migrations make its tables, also where several processes begin at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, inspect, text

from tests.support.servers.warm import Warm
from webapp import models

ROOT = Path(__file__).resolve().parents[3]
RIVALS = 3

Flask = Callable[..., tuple[int, str]]


@pytest.fixture
def begin(database_url: str, tmp_path: Path) -> Callable[..., Callable[[], tuple[int, str]]]:
    """Starts `flask --app webapp …`; returns what waits for its end, status and output."""
    environment = {**os.environ, "DATABASE_URL": database_url, "SECRET_KEY": "of a test"}

    def run(*words: str, name: str = "printed") -> Callable[[], tuple[int, str]]:
        log = tmp_path / name
        log.write_bytes(b"")
        arguments = ["--app", "webapp", *words]
        process = Warm("flask", arguments, directory=ROOT, environment=environment, log=log)
        return lambda: (process.wait(), log.read_text())

    return run


@pytest.fixture
def flask(begin: Callable[..., Callable[[], tuple[int, str]]]) -> Flask:
    """Runs `flask --app webapp …`."""
    return lambda *words: begin(*words)()


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = create_engine(database_url)
    yield engine
    engine.dispose()


@pytest.mark.long
@pytest.mark.each_database
def test_side_by_side_they_make_the_tables_of_the_models_once(
    begin: Callable[..., Callable[[], tuple[int, str]]], flask: Flask, engine: Engine
) -> None:
    rivals = [begin("init-db", name=f"rival-{number}") for number in range(RIVALS)]
    assert [end() for end in rivals] == [(0, "The database is ready: revision r0003.\n")] * RIVALS
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM shop_product")) == 6

    status, printed = flask("db", "check")
    assert (status, "No new upgrade operations" in printed) == (0, True), printed
    assert "the schema is complete" in flask("outbox", "check")[1]

    assert flask("db", "downgrade", "base")[0] == 0
    assert inspect(engine).get_table_names() == ["alembic_version"]


@pytest.mark.one_database("sqlite")
def test_older_code_leaves_a_newer_database_alone(flask: Flask, engine: Engine) -> None:
    assert flask("init-db")[0] == 0
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'r9999'"))
    status, printed = flask("init-db")
    assert (status, printed) == (
        0,
        "The database is newer than this code (r9999): nothing is done.\n",
    )


@pytest.mark.one_database("sqlite")
def test_tables_without_a_revision_are_refused_with_the_remedy(
    flask: Flask, engine: Engine
) -> None:
    models.Product.metadata.create_all(engine)
    status, printed = flask("init-db")
    assert status == 1
    assert "db stamp head" in printed
    assert flask("db", "stamp", "head")[0] == 0
    assert flask("init-db")[0] == 0
