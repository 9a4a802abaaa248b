"""Each Python that is here, with the oldest packages that the wheel allows and with the newest."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.version import Version

from tests.release.environments import ROOT, Environment, interpreter, make, run
from tests.support.servers.brokers.redis import RedisServer
from tests.support.servers.databases.postgres import Postgres

pytestmark = [pytest.mark.one_database("sqlite"), pytest.mark.long, pytest.mark.no_cover]

HERE = Path(__file__).parent
OLDEST = "3.11"
THIS = "{}.{}".format(*sys.version_info)
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
TOOLS = (
    "aiosmtpd",
    "cryptography",
    "hypothesis",
    "pytest",
    "pytest-cov",
    "pytest-timeout",
    "pyyaml",
)
"""What the unit tests import beside the package."""
WITH_OLDEST = ("flask-sqlalchemy==3.0.2", "werkzeug<3")
"""Beside the lower bounds: Flask 2.3 itself does not run with Werkzeug 3."""
RULES = ("flask_ext", "header", "message", "mime", "store")
"""Folders of the unit tests that lean on other packages, or on Python's own email package."""

_BOUND = re.compile(r"([\w-]+)(?:\[[\w,]+\])?>=([\w.]+)$")


def lower_bounds() -> list[str]:
    """Return the oldest version of each package that the wheel allows, as constraints."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = [*project["dependencies"], *extras["postgresql"], *extras["mysql"]]
    found = [_BOUND.match(line) for line in named]
    assert all(found), named
    return [f"{one[1]}=={one[2]}" for one in found if one]


@pytest.fixture
def servers(postgres: Postgres, redis: RedisServer) -> Iterator[tuple[str, str]]:
    """The URLs of an empty database and of a broker."""
    url = postgres.new_database()
    yield url, redis.url
    postgres.drop_database(url)


@pytest.mark.timeout(900)  # a cold and slow machine downloads first
@pytest.mark.parametrize(
    ("python", "packages"), [(OLDEST, "oldest"), *((python, "newest") for python in PYTHONS)]
)
def test_an_email_goes_its_whole_way(
    python: str, packages: str, wheel: Path, servers: tuple[str, str], tmp_path: Path
) -> None:
    environment = make(tmp_path / "env", interpreter(python))
    bounds = [*lower_bounds(), *WITH_OLDEST] if packages == "oldest" else []
    what = f"flask-mail-outbox[postgresql,mysql] @ {wheel.as_uri()}"
    environment.install(what, "flask-sqlalchemy", *TOOLS, constraints=bounds)
    if bounds:
        installed = environment.versions()
        pairs = [bound.split("==") for bound in lower_bounds()]
        assert [one for one, bound in pairs if Version(installed[one]) != Version(bound)] == []
    database, broker = servers
    for url, more in ((f"sqlite:///{tmp_path}/shop.db", []), (database, [broker])):
        said = environment.run("python", HERE / "journey.py", url, *more)
        assert said.splitlines()[-1] == "ok"
    if bounds or python != THIS:  # else they are the suite's own
        rules(environment)


def test_the_page_on_versions_names_the_oldest() -> None:
    page = (ROOT / "docs/reference/versions.md").read_text().lower()
    told = dict(re.findall(r"^\| ([\w-]+).*? \| ([\d.]+)", page, re.MULTILINE))
    bounds = dict(bound.split("==") for bound in lower_bounds())
    assert told.pop("python") == OLDEST
    assert told == {name: bounds[name] for name in told}
    assert {"sqlalchemy", "flask", "celery", "flask-mail", "psycopg"} <= told.keys()


def rules(environment: Environment) -> None:
    """Run unit tests on the installed wheel's versions."""
    folders = [f"tests/unit/{name}" for name in RULES]
    command = [
        environment.python,
        "-m",
        "pytest",
        "-q",
        "--no-cov",
        "-p",
        "no:cacheprovider",
        *folders,
    ]
    said = run(command, ROOT, {})
    assert re.search(r"\d{3,} passed", said), said[-3000:]
