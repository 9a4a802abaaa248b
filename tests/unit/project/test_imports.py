"""The package as a user imports it, and the floor that imports nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import outbox

DOMAIN = Path(outbox.__file__).parent / "domain"
FILES = sorted(DOMAIN.rglob("*.py"))
ROOT = DOMAIN.parents[1]
ROOMS = ("outbox", "webapp", "tests", "benchmarks")
SOURCES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
PURE = {*sys.stdlib_module_names, "idna"}  # which is tables and rules, and opens nothing
PUBLIC = {
    "AttemptDetails", "ConfigurationError", "Corrections", "Email", "EmailDetails", "EmailSummary",
    "Health", "InvalidMessage", "KeyConflict", "KeyContention", "OnUnknown", "Outbox",
    "OutboxError", "OutboxMail", "Priority", "RateLimited", "Reason", "RecipientDetails",
    "SentAgain", "ServerStatus", "Stats", "Status", "Suppression", "Unchanged",
    "email_failed", "email_sent", "email_unknown",
}  # fmt: skip


def python(program: str) -> str:
    """Run a program in a fresh interpreter, with warnings as errors, and return what it prints."""
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_public_names_are_there_and_no_other_is_promised() -> None:
    assert set(outbox.__all__) >= PUBLIC
    assert all(hasattr(outbox, name) for name in outbox.__all__)
    assert outbox.__all__ == sorted(outbox.__all__)


def test_a_fresh_interpreter_imports_the_package_without_a_warning() -> None:
    program = "from outbox import *; from outbox import Outbox, OutboxMail, Priority, Status"
    assert python(f"{program}; print(Status.SENT)") == "sent\n"


def test_the_tasks_are_registered_by_the_import_alone() -> None:
    program = (
        "import outbox, celery; app = celery.Celery(); app.finalize(); print(*sorted(app.tasks))"
    )
    assert {"outbox.sweep", "outbox.send", "outbox.purge"} <= set(python(program).split())


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DOMAIN)))
def test_the_domain_imports_the_standard_library_itself_and_idna_only(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= PURE
        if isinstance(node, ast.ImportFrom):
            is_within = 0 < node.level <= len(path.relative_to(DOMAIN).parts)
            assert is_within or (node.module or "").split(".")[0] in PURE


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DOMAIN)))
def test_the_domain_does_no_io_and_asks_no_clock(path: Path) -> None:
    forbidden = {"socket", "smtplib", "sqlite3", "subprocess", "threading", "time", "random", "os"}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert not forbidden & {alias.name.split(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom) and not node.level:
            assert (node.module or "").split(".")[0] not in forbidden


def test_no_file_is_longer_than_300_lines() -> None:
    assert not [p.name for p in SOURCES if len(p.read_text("utf-8").splitlines()) > 300]


def test_no_folder_has_more_than_15_files() -> None:
    folders = Counter(path.parent for path in SOURCES if path.stem != "__init__")
    assert not [folder.name for folder, files in folders.items() if files > 15]
