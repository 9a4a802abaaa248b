"""Flask-Migrate makes our tables and unmakes them; its script names nothing of ours."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect

from outbox.store.schema.version import VERSION
from tests.support.servers.warm import Warm

pytestmark = [pytest.mark.long, pytest.mark.each_database]

ROOT = Path(__file__).resolve().parents[3]
APP = """
import os
from flask import Flask
from flask_migrate import Migrate
from flask_sqlalchemy import SQLAlchemy
from outbox import Outbox

app = Flask(__name__)
app.config["SQLALCHEMY_DATABASE_URI"] = os.environ["DATABASE_URL"]
db = SQLAlchemy(app)
Migrate(app, db)
Outbox().init_app(app, db=db)


class Order(db.Model):
    id = db.Column(db.Integer, primary_key=True)
"""
OURS = {
    f"outbox_{name}"
    for name in (
        "email", "content", "recipient", "attempt", "lease",
        "breaker", "server", "bucket", "pause", "suppression", "counter", "purge", "straggler",
        "audit", "body_straggler", "erased", "instance", "job", "lookup", "stat", "tally", "worker",
    )
}  # fmt: skip


def tables(url: str) -> set[str]:
    engine = create_engine(url)
    try:
        return set(inspect(engine).get_table_names())
    finally:
        engine.dispose()


Flask = Callable[..., str]


@pytest.fixture
def flask(database_url: str, tmp_path: Path) -> Flask:
    """Runs `flask` for an app of its own, without Celery: `outbox check` exits with 1."""
    (tmp_path / "shop.py").write_text(APP)
    environment = {**os.environ, "DATABASE_URL": database_url, "PYTHONPATH": str(ROOT)}

    def run(*words: str, code: int = 0) -> str:
        log = tmp_path / "printed"
        log.write_bytes(b"")
        arguments = ["--app", "shop", *words]
        done = Warm(
            "flask", arguments, directory=tmp_path, environment=environment, log=log, ours=True
        )
        status, printed = done.wait(), log.read_text()
        assert status == code, printed
        return printed

    return run


def test_autogenerate_makes_and_removes_our_tables_and_then_finds_no_change(
    database_url: str, tmp_path: Path, flask: Flask
) -> None:
    flask("db", "init")
    flask("db", "migrate", "-m", "outbox")
    (script,) = (tmp_path / "migrations" / "versions").glob("*.py")
    assert "import outbox" not in script.read_text()
    assert "outbox." not in script.read_text().replace("outbox_", "").replace("outbox.py", "")
    flask("db", "upgrade")
    assert tables(database_url) == OURS | {"alembic_version", "order"}
    assert f"the schema is complete: version {VERSION}" in flask("outbox", "check", code=1)

    assert "No changes in schema detected" in flask("db", "migrate", "-m", "again")
    assert list((tmp_path / "migrations" / "versions").glob("*.py")) == [script]
    flask("db", "check")

    flask("db", "downgrade")
    assert tables(database_url) == {"alembic_version"}
    flask("db", "upgrade")
    assert tables(database_url) >= OURS


def test_a_generated_migration_brings_an_older_database_to_our_version(
    database_url: str, flask: Flask
) -> None:
    flask("db", "init")
    flask("db", "migrate", "-m", "outbox")
    flask("db", "upgrade")
    engine = create_engine(database_url)
    of = " ON outbox_pause" if engine.dialect.name in ("mysql", "mariadb") else ""
    with engine.begin() as connection:
        connection.exec_driver_sql(f"DROP INDEX ix_outbox_schema_{VERSION}{of}")
        older = f"ix_outbox_schema_{VERSION - 1}"
        connection.exec_driver_sql(f"CREATE INDEX {older} ON outbox_pause (scope)")
        connection.exec_driver_sql("ALTER TABLE outbox_email DROP COLUMN traceparent")
        connection.exec_driver_sql("DROP TABLE outbox_job")
    engine.dispose()
    assert "the database is older, run your migrations" in flask("outbox", "check", code=1)
    flask("db", "migrate", "-m", "newer")
    flask("db", "upgrade")
    assert f"the schema is complete: version {VERSION}" in flask("outbox", "check", code=1)
