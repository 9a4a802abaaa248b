import pytest

from tests.support.servers.missing import missing


def test_a_missing_server_skips_a_persons_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="MariaDB is not installed: apt install"):
        missing("MariaDB", "apt install mariadb-server")


def test_a_missing_server_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="MariaDB is not installed: apt install"):
        missing("MariaDB", "apt install mariadb-server")
