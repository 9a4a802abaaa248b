"""The wheel and the sdist hold what they should, and the wheel works where nothing else is."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tarfile
from difflib import SequenceMatcher
from email import message_from_bytes
from importlib import import_module
from importlib.metadata import Distribution, packages_distributions
from pathlib import Path
from zipfile import ZipFile

import pytest
import sqlalchemy as sa
from flask import Flask
from packaging.requirements import Requirement
from sqlalchemy.orm import scoped_session, sessionmaker

import outbox
from outbox import Outbox
from outbox.testing import OutboxTester
from tests.release.environments import ROOT, Environment, uv
from tests.release.whole_way import JOURNEY, as_an_app_does, go

pytestmark = [pytest.mark.one_database("sqlite"), pytest.mark.long]

HERE = Path(__file__).parent
EXTRAS = (
    *("postgresql", "mysql", "encryption", "metrics", "opentelemetry"),
    *("shop", "demo", "test", "docs", "check"),
)
"""All but `mysqlclient`, which is compiled."""


def requirements(wheel: Path, extra: str) -> list[str]:
    """Return the packages that an extra of the wheel adds on this Python."""
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        metadata = message_from_bytes(archive.read(name))
    found = [Requirement(line) for line in metadata.get_all("Requires-Dist", [])]
    return [
        one.name
        for one in found
        if one.marker and one.marker.evaluate({"extra": extra}) and one.name != metadata["Name"]
    ]


def test_the_wheel_holds_the_package_with_its_templates_and_nothing_else(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        licences = [name for name in archive.namelist() if ".dist-info/licenses/" in name]
    listed = {
        str(path.relative_to(ROOT)) for path in (ROOT / "outbox").rglob("*") if path.is_file()
    }
    assert names == {name for name in listed if "__pycache__" not in name}
    assert {"outbox/py.typed", "outbox/flask_ext/previews/templates/email.html"} <= names
    ours, *vendored = sorted(licences, key=len)
    assert ours.endswith("/licenses/LICENSE")
    assert {Path(name).parent.name for name in vendored} == {"htmx", "uplot"}


def test_the_sdist_holds_what_one_needs_to_build_and_test_and_no_leftovers(built: Path) -> None:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("this is no git checkout")
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    kept = {name for name in done.stdout.splitlines() if (ROOT / name).is_file()}
    assert names - {"PKG-INFO"} == kept
    assert {"Makefile", "constraints.txt", "tests/conftest.py", "outbox/py.typed"} <= names


def test_it_works_without_extras(plain: Environment, tmp_path: Path) -> None:
    assert "pytest" not in plain.versions()
    said = plain.run("python", "-W", "error", "-c", "import outbox; print(outbox.__file__)")
    assert str(plain.directory) in said
    environment = {"PYTHONPATH": str(HERE), "DATABASE_URL": f"sqlite:///{tmp_path}/a.db"}
    said = plain.run("flask", "--app", "journey:create_app", "outbox", "--help", **environment)
    assert "See, send and correct the emails" in said
    journey = plain.run("python", JOURNEY, f"sqlite:///{tmp_path}/b.db")
    assert journey.splitlines()[-1] == "ok"


def run_cli(words: list[str]) -> str:
    app = Flask("shop")
    engine = sa.create_engine("sqlite://")
    Outbox(app, session=scoped_session(sessionmaker(engine)), metadata=sa.MetaData(), engine=engine)
    return app.test_cli_runner().invoke(args=words).output


def test_the_version_is_that_of_the_code(wheel: Path, plain: Environment) -> None:
    assert wheel.name == f"flask_mail_outbox-{outbox.__version__}-py3-none-any.whl"
    program = "from importlib.metadata import version; print(version('flask-mail-outbox'))"
    assert plain.run("python", "-c", program) == f"{outbox.__version__}\n"
    assert run_cli(["outbox", "--version"]) == f"flask-mail-outbox {outbox.__version__}\n"


@pytest.mark.filterwarnings("default")  # other people's modules warn at their import
@pytest.mark.parametrize("extra", EXTRAS)
def test_each_extra_resolves_and_its_packages_import(wheel: Path, extra: str) -> None:
    resolved = uv("pip", "compile", "--quiet", "--extra", extra, ROOT / "pyproject.toml")
    pinned = {line.partition("==")[0].lower() for line in resolved.splitlines() if "==" in line}
    modules = packages_distributions()
    wanted = requirements(wheel, extra)
    assert wanted
    for package in wanted:
        assert package.lower().replace("_", "-") in pinned
        name = Distribution.from_name(package).metadata["Name"]
        own = [module for module, owners in modules.items() if name in owners]
        if not package.startswith("types-"):
            import_module(max(own, key=lambda one: SequenceMatcher(None, one, package).ratio()))


def test_the_extras_that_have_a_driver_are_enough_for_their_database(
    plain: Environment, wheel: Path, servers: tuple[str, str], tmp_path: Path
) -> None:
    plain.install(*as_an_app_does(wheel))
    plain.run("python", "-c", "import pymysql, psycopg; print(psycopg.pq.__impl__)")
    go(plain, tmp_path, *servers)


def test_mypy_finds_no_fault_in_a_users_file(plain: Environment, tmp_path: Path) -> None:
    user = tmp_path / "user.py"
    user.write_text((HERE / "user.py").read_text())
    wrong = tmp_path / "wrong.py"
    wrong.write_text("from outbox import Outbox\nOutbox().enqueue('text', key=7)\n")
    # A cache would be written for nobody.
    options = ["--strict", "--config-file=", f"--cache-dir={os.devnull}"]
    command = [sys.executable, "-m", "mypy", *options]
    command += ["--python-executable", str(plain.python), "user.py", "wrong.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    faults = [line for line in done.stdout.splitlines() if "error:" in line]
    assert [line.partition(":")[0] for line in faults] == ["wrong.py", "wrong.py"], done.stdout


def test_the_users_file_uses_every_public_name() -> None:
    tree = ast.parse((HERE / "user.py").read_text())
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    used |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    public = set(outbox.__all__)
    for kind in (Outbox, OutboxTester):
        public |= {name for name in dir(kind) if not name.startswith("_")}
    assert public - used - {"close", "deliveries"} == set()
