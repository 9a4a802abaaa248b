"""A test runs on the databases that it says, and on no other."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

_HOOKS = """
import pytest
from tests.support.matrix import thin_out
from tests.support.turns import add_options, leave_out, on_its_servers, register

pytest_addoption, pytest_configure, pytest_generate_tests = add_options, register, on_its_servers


def pytest_collection_modifyitems(config, items):
    thin_out(items)
    leave_out(config, items)


@pytest.fixture
def database_url(request):
    return request.param
"""

_TESTS = """
import pytest

pytestmark = pytest.mark.one_database("postgresql")
on = pytest.mark


def test_file(database_url): ...


@on.each_database
def test_each(database_url): ...


@on.databases("sqlite", "mariadb")
def test_able(database_url): ...


@on.one_database("mariadb")
@on.databases("sqlite", "mariadb")
def test_both(database_url): ...


@on.each_driver
@on.each_database
def test_over(database_url): ...


@on.drivers("psycopg2")
def test_alone(database_url): ...
"""


_MATRIX = """
@on.matrix
@on.parametrize("end", ["sent", "failed", "unknown"])
@on.parametrize("lane", ["urgent", "bulk"])
@on.each_database
def test_ends(database_url, lane, end): ...


@on.matrix
@on.parametrize(("lane", "end"), [("urgent", "sent"), ("bulk", "sent"), ("bulk", "failed")])
@on.databases("sqlite", "postgresql")
def test_pairs(database_url, lane, end): ...
"""


def collected(folder: Path, text: str, *options: str) -> str:
    (folder / "conftest.py").write_text(_HOOKS)
    (folder / "test_some.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-c", os.devnull]
    env = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    done = subprocess.run(
        [*command, "--rootdir", str(folder), str(folder), *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=env | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    return done.stdout + done.stderr


def _quick() -> list[str]:
    """Return the options by which `make test` chooses."""
    line = next(line for line in (ROOT / "Makefile").read_text().splitlines() if "QUICK :=" in line)
    return shlex.split(line.partition(":=")[2])


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            [],
            "file postgresql, each sqlite, each postgresql, each mariadb, able sqlite,"
            " able mariadb, both mariadb, over sqlite, over postgresql, over mariadb,"
            " over psycopg2, over mysqldb, alone psycopg2",
        ),
        (
            ["--database", "sqlite"],
            "file sqlite, each sqlite, able sqlite, both sqlite, over sqlite",
        ),
        (["--database", "postgresql"], "file postgresql, each postgresql, over postgresql"),
        (
            ["--database", "psycopg2"],
            "file psycopg2, each psycopg2, over psycopg2, alone psycopg2",
        ),
        (
            ["--whole"],
            "file sqlite, file postgresql, file mariadb, each sqlite, each postgresql,"
            " each mariadb, able sqlite, able mariadb, both sqlite, both mariadb, over sqlite,"
            " over postgresql, over mariadb, over psycopg2, over mysqldb, alone psycopg2",
        ),
    ],
    ids=["as they say", "on one", "on one that some cannot take", "over a driver", "whole"],
)
def test_a_test_runs_where_it_says(tmp_path: Path, options: list[str], expected: str) -> None:
    said = collected(tmp_path, _TESTS, *options)
    assert ", ".join(" ".join(m) for m in re.findall(r"::test_(\w+)\[(\w+)\]", said)) == expected


@pytest.mark.long
def test_a_test_that_says_no_database_is_refused(tmp_path: Path) -> None:
    said = collected(tmp_path, "def test_silent(database_url): ...\n")
    assert "test_silent says no database" in said


@pytest.mark.long
def test_a_test_that_cannot_run_where_it_says_is_refused(tmp_path: Path) -> None:
    marks = "@pytest.mark.databases('sqlite')\n@pytest.mark.one_database('mariadb')\n"
    said = collected(tmp_path, f"import pytest\n{marks}def test_wrong(database_url): ...\n")
    assert "test_wrong cannot run on mariadb" in said


@pytest.mark.long
def test_what_make_test_runs_and_the_rest_are_all_tests(tmp_path: Path) -> None:
    """CI runs both: a test in neither would never run there."""
    slow = "@on.long\n@on.each_database\ndef test_slow(database_url): ...\n"
    text = f"{_TESTS}\n\n{slow}\n\n{_MATRIX}"
    whole, quick, rest = (
        set(re.findall(r"::(test_\w+\[[\w-]+\])", collected(tmp_path, text, *chosen)))
        for chosen in ([], _quick(), ["--rest"])
    )
    assert whole <= quick | rest
    assert not quick & rest
    assert {"test_slow[sqlite]", "test_each[mariadb]"} <= rest
    assert {"test_file[postgresql]", "test_each[sqlite]"} <= quick
    assert {"test_ends[mariadb-bulk-sent]", "test_ends[sqlite-urgent-failed]"} <= rest


def test_of_a_matrix_make_test_runs_each_value_and_no_more_cases_than_that_takes(
    tmp_path: Path,
) -> None:
    said = collected(tmp_path, f"{_TESTS}\n\n{_MATRIX}", *_quick())
    ends = re.findall(r"::test_ends\[(\w+)-(\w+)-(\w+)\]", said)
    assert [len(ends), *map(len, map(set, zip(*ends, strict=True)))] == [3, 2, 2, 3]
    pairs = re.findall(r"::test_pairs\[(\w+)-(\w+-\w+)\]", said)
    assert [len(pairs), *map(len, map(set, zip(*pairs, strict=True)))] == [3, 2, 3]
