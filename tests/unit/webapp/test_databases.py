"""A database that is not installed is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

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
