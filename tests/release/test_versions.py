"""Each Python that is here, with the oldest packages that the wheel allows and with the newest."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import pytest
from packaging.version import Version

from tests.release.environments import ROOT, Environment, find_interpreter, interpreter, make, run
from tests.release.whole_way import as_an_app_does, go

pytestmark = [pytest.mark.one_database("sqlite"), pytest.mark.long]

UNIT = ROOT / "tests/unit"
OLDEST = "3.11"
SERVERS = ("postgresql", "mariadb", "mysql", "sqlite")
THIS = "{}.{}".format(*sys.version_info)
"""It has its way with the newest packages in test_package.py, and the suite runs its rules."""
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
OF_PACKAGES = ("flask_ext", "header", "store", "worker")
"""Folders of the unit tests that lean on other packages; files of the others name Flask-Mail."""
OF_PYTHON = ("flask_ext", "header", "message", "mime")
"""Folders of the unit tests that lean on Python's own email package."""

_BOUND = re.compile(r"([\w-]+)(?:\[[\w,]+\])?>=([\w.]+)$")


def lower_bounds() -> list[str]:
    """Return the oldest version of each package that the wheel allows, as constraints."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    optional = (extras[name] for name in ("postgresql", "mysql", "encryption", "opentelemetry"))
    named = [*project["dependencies"], *chain.from_iterable(optional)]
    found = [_BOUND.match(line) for line in named]
    assert all(found), named
    return [f"{one[1]}=={one[2]}" for one in found if one]


@pytest.mark.timeout(900)  # a cold and slow machine downloads first
@pytest.mark.parametrize("python", [one for one in PYTHONS if one != THIS])
def test_an_email_goes_its_whole_way_with_the_newest_packages(
    python: str, wheel: Path, servers: tuple[str, str], tmp_path: Path
) -> None:
    environment = make(tmp_path / "env", interpreter(python))
    with_rules = python in ends()
    environment.install(*as_an_app_does(wheel), *(TOOLS if with_rules else ()))
    go(environment, tmp_path, *servers)
    if with_rules:
        rules(environment, [UNIT / folder for folder in OF_PYTHON])


@pytest.mark.timeout(900)
def test_an_email_goes_its_whole_way_with_the_oldest_packages(
    wheel: Path, servers: tuple[str, str], tmp_path: Path
) -> None:
    environment = make(tmp_path / "env", interpreter(OLDEST))
    bounds = [*lower_bounds(), *WITH_OLDEST]
    environment.install(*as_an_app_does(wheel), *TOOLS, constraints=bounds)
    installed = environment.versions()
    pairs = [bound.split("==") for bound in lower_bounds()]
    assert [one for one, bound in pairs if Version(installed[one]) != Version(bound)] == []
    go(environment, tmp_path, *servers)
    others = [path for folder in ("message", "mime") for path in (UNIT / folder).glob("test_*.py")]
    lean = [path for path in others if "flask_mail" in path.read_text()]
    assert lean
    rules(environment, [*(UNIT / folder for folder in OF_PACKAGES), *lean])


def test_the_page_on_versions_names_the_oldest() -> None:
    page = (ROOT / "docs/reference/versions.md").read_text().lower()
    told = dict(re.findall(r"^\| ([\w-]+).*? \| ([\d.]+)", page, re.MULTILINE))
    bounds = dict(bound.split("==") for bound in lower_bounds())
    assert told.pop("python") == OLDEST
    assert all(told.pop(server) for server in SERVERS), "no package has a bound for these"
    assert told == {name: bounds[name] for name in told}
    assert {"sqlalchemy", "flask", "celery", "flask-mail", "psycopg"} <= told.keys()


def ends() -> set[str]:
    """Return the oldest and the newest Python here. One between them has an email's way only."""
    here = [python for python in PYTHONS if find_interpreter(python)]
    return {here[0], here[-1]}


def rules(environment: Environment, where: Iterable[Path]) -> None:
    """Run unit tests on the environment's versions; the suite itself tries more examples."""
    options = ("-q", "--no-cov", "-p", "no:cacheprovider", "--hypothesis-profile", "few")
    said = run([environment.python, "-m", "pytest", *options, *where], ROOT, {})
    assert re.search(r"\d{3,} passed", said), said[-3000:]
