"""The shop's migrations make its tables, also where several processes begin at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import Engine, create_engine, inspect, text

from tests.support.servers.warm import Warm
from webapp import create_app, models

ROOT = Path(__file__).resolve().parents[3]
RIVALS = 2
READY = "The database is ready: revision r0011.\n"

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = create_engine(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def app(database_url: str) -> Iterator[Flask]:
    app = create_app(
        {
            "SECRET_KEY": "of a test",
            "SQLALCHEMY_DATABASE_URI": database_url,
            "PUBLIC_URL": "http://shop.example",
            "OUTBOX_NUDGE": False,
        }
    )
    yield app
    with app.app_context():
        app.extensions["sqlalchemy"].engine.dispose()


@pytest.fixture
def flask(app: Flask) -> Run:
    """Runs `flask --app webapp …`; returns its status and what it printed."""

    def run(*words: str) -> tuple[int, str]:
        result = app.test_cli_runner().invoke(args=words)
        return result.exit_code, result.output

    return run


@pytest.mark.long
@pytest.mark.each_database
def test_side_by_side_they_make_the_tables_of_the_models_once(
    database_url: str, tmp_path: Path, flask: Run, engine: Engine
) -> None:
    environment = {**os.environ, "DATABASE_URL": database_url, "SECRET_KEY": "of a test"}
    words = ["--app", "webapp", "init-db"]
    logs = [tmp_path / f"rival-{number}" for number in range(RIVALS)]
    rivals = [
        Warm("flask", words, directory=ROOT, environment=environment, log=log, ours=True)
        for log in logs
    ]
    assert [rival.wait() for rival in rivals] == [0] * RIVALS, [log.read_text() for log in logs]
    assert [log.read_text() for log in logs] == [READY] * RIVALS
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM shop_product")) == 6

    assert flask("db", "check")[0] == 0, "the models differ from the tables"
    assert "the schema is complete" in flask("outbox", "check")[1]
    assert flask("db", "downgrade", "base")[0] == 0
    assert inspect(engine).get_table_names() == ["alembic_version"]


@pytest.mark.long
@pytest.mark.one_database("sqlite")
def test_older_code_leaves_a_newer_database_alone(flask: Run, engine: Engine) -> None:
    assert flask("init-db") == (0, READY)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'r9999'"))
    assert flask("init-db") == (
        0,
        "The database is newer than this code (r9999): nothing is done.\n",
    )


@pytest.mark.one_database("sqlite")
def test_tables_without_a_revision_are_refused_with_the_remedy(flask: Run, engine: Engine) -> None:
    models.Product.metadata.create_all(engine)
    status, printed = flask("init-db")
    assert status == 1
    assert "db stamp head" in printed
    assert flask("db", "stamp", "head")[0] == 0
    assert flask("init-db") == (0, READY)


EMAIL = """
INSERT INTO outbox_email (content_id, created_at, due_at, size, priority, attempts, crashes,
    unknown_count, recipients, smtputf8, eightbit, status, sender, recipient, message_id, headers)
VALUES (1, '2026-01-01 12:00:00', '2026-01-01 12:00:00', 1, 1, 0, 0,
    0, 2, 0, 0, 'pending', 'a@x.example', 'b@x.example', '<1@x.example>', '')
"""
CONTENT = """
INSERT INTO outbox_content (size, crc32, body, created_at) VALUES (1, 1, 'x', '2026-01-01 12:00:00')
"""
RECIPIENT = """
INSERT INTO outbox_recipient (email_id, position, address, status)
VALUES (1, 0, 'b@x.example', 'pending')
"""


@pytest.mark.long
@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("steps", [["upgrade"], ["upgrade", "downgrade r0004"]], ids=["up", "back"])
def test_no_id_of_a_purged_email_comes_again_after_a_migration(
    flask: Run, engine: Engine, steps: list[str]
) -> None:
    assert flask("db", "upgrade", "r0004")[0] == 0
    with engine.begin() as connection:
        for statement in [CONTENT, EMAIL, CONTENT, EMAIL]:
            connection.execute(text(statement))
        connection.execute(text(RECIPIENT))
        connection.execute(text("DELETE FROM outbox_email WHERE id = 2"))
        connection.execute(text("DELETE FROM outbox_content WHERE id = 2"))
    for step in steps:
        assert flask("db", *step.split())[0] == 0
    with engine.begin() as connection:
        assert connection.execute(text("PRAGMA foreign_key_check")).all() == []
        assert [connection.execute(text(each)).lastrowid for each in (CONTENT, EMAIL)] == [3, 3]
        for table in ("outbox_email", "outbox_content"):
            connection.execute(text(f"DELETE FROM {table} WHERE id > 1"))
        assert [connection.execute(text(each)).lastrowid for each in (CONTENT, EMAIL)] == [4, 4]


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("words", ["upgrade --sql", "downgrade --sql r0005:r0004"])
def test_statements_for_sqlite_are_refused_with_the_reason(
    flask: Run, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """They would copy tables, and only the database knows these."""
    assert flask("db", *words.split())[0] == 1
    assert "cannot proceed in --sql mode" in caplog.text


@pytest.mark.long
@pytest.mark.one_database("sqlite")
def test_the_folder_of_the_code_may_have_a_percent_sign(database_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "feature%2Fink"
    shutil.copytree(ROOT / "webapp", folder / "webapp")
    environ = os.environ | {"SECRET_KEY": "of a test", "DATABASE_URL": database_url}
    command = [sys.executable, "-m", "flask", "--app", "webapp", "init-db"]
    done = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, READY), done.stderr
