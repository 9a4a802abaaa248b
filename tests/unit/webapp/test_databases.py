"""The demo's databases: one that is not installed is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from webapp.demo import databases
from webapp.demo.state_folder import Refused


def test_a_missing_mariadb_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(databases, "FOLDERS", str(tmp_path))
    with pytest.raises(Refused) as refusal, databases.database("mariadb", tmp_path, tmp_path):
        pytest.fail("it started")
    assert str(refusal.value) == "MariaDB is not installed. On Debian: apt install mariadb-server"


@pytest.mark.parametrize("name", ["a%2Fb", "a%b", "a b"])
def test_the_path_of_the_sqlite_file_may_have_a_percent_sign(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with databases.database("sqlite", tmp_path / name, tmp_path) as url:
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE ink (id INTEGER)"))
        engine.dispose()
    assert (tmp_path / name / "shop.db").exists()
