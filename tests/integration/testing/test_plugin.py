"""The pytest plugin in a stranger's project: found without an import, and what a failure says."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

pytest_plugins = ["pytester"]

FAILING = """
def test_that_fails(app, outbox):
    app.test_client().post("/orders", data={"email": "ada@customers.example"})
    outbox.assert_enqueued(to="ada@customers.example", subject="Your orders", key="order-1")
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with the page's conftest.py, where the package is installed."""
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    info = pytester.path / "installed" / "flask_mail_outbox-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: flask-mail-outbox\nVersion: 0\n")
    lines = [f"{name} = {module}" for name, module in entries["pytest11"].items()]
    (info / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines]))
    monkeypatch.setenv("PYTHONPATH", f"{info.parent}:{ROOT}")
    pytester.makepyfile(yourapp=_block("yourapp.py"), conftest=_block("conftest.py"))
    return pytester


@pytest.mark.long
def test_the_pages_example_runs_as_it_stands(project: pytest.Pytester) -> None:
    example = _block("test_orders.py")
    project.makepyfile(test_orders=example)
    project.runpytest_subprocess().assert_outcomes(passed=example.count("\ndef test_"))


@pytest.mark.long
def test_a_failure_ends_at_the_tests_own_line_and_shows_the_miss(project: pytest.Pytester) -> None:
    project.makepyfile(test_orders=FAILING)
    result = project.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    told = [line[8:] for line in result.outlines if line.startswith("E   ")]
    assert told == [
        "AssertionError: no email was enqueued with to='ada@customers.example',"
        " subject='Your orders', key='order-1'",
        "",
        "2 emails were enqueued. The nearest (- wanted, + found):",
        "",
        "  email 1 (pending) to ada@customers.example: 'Your order'",
        "    subject:",
        "      - 'Your orders'",
        "      ?            -",
        "      + 'Your order'",
        "",
        "  email 2 (pending) to ada@customers.example: 'How was it?'",
        "    subject:",
        "      - 'Your orders'",
        "      + 'How was it?'",
        "    key:",
        "      - 'order-1'",
        "      + None",
    ]
    result.stdout.fnmatch_lines(["*test_orders.py:*: AssertionError"])
    result.stdout.no_fnmatch_line("*tester.py*")


FORGOTTEN = """
import pytest
from flask_mail import Message
from yourapp import db

@pytest.fixture
def app(app):
    import yourapp
    @app.post("/forgotten")
    def forgotten():
        yourapp.outbox.enqueue(Message("Hi", ["ada@x.example"], "x", sender="s@x.example"))
        return ""
    return app

def test_forgotten(app, outbox):
    app.test_client().post("/forgotten")
    outbox.assert_enqueued(subject="Hi")
"""
PUSHED = """
@pytest.fixture(autouse=True)
def pushed(app):  # as pytest-flask does
    with app.test_request_context():
        yield
"""


@pytest.mark.long
def test_a_forgotten_commit_is_not_seen_in_an_open_context_and_the_fixture_warns(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(test_closed=FORGOTTEN, test_open=FORGOTTEN + PUSHED)
    result = project.runpytest_subprocess()
    result.assert_outcomes(failed=1, passed=1, warnings=1)
    result.stdout.fnmatch_lines(["FAILED test_closed.py::test_forgotten*"])
    result.stdout.fnmatch_lines(
        [
            "test_open.py::test_forgotten",
            "*OpenContextWarning: an app context is open around this test*",
        ],
        consecutive=True,
    )


@pytest.mark.long
def test_the_tester_needs_no_pytest_and_the_package_no_tester() -> None:
    program = (
        "import sys; sys.modules['pytest'] = None\n"
        "import outbox; assert 'outbox.testing' not in sys.modules\n"
        "import outbox.testing; print(outbox.testing.OutboxTester.__name__)"
    )
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("OutboxTester\n", "")


def _block(name: str) -> str:
    """Return the code of this file in the page on testing."""
    text = (ROOT / "docs/how-to/testing.md").read_text()
    found = re.search(rf"```python\n(# {name}\n.*?)```", text, re.DOTALL)
    assert found
    return found[1]
