"""What never leaves the house: read from the source, so that new code is covered by itself.

That STARTTLS is required and certificates are verified is shown by `test_smtp_tls`.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import outbox

pytestmark = pytest.mark.over_and_over  # each node of our source, for each name

ROOT = Path(outbox.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))


@cache
def nodes() -> tuple[tuple[str, ast.AST], ...]:
    """Return every node of our source, with its file and the function that it stands in."""
    return tuple(found for path in FILES for found in _nodes_of(path))


def _nodes_of(path: Path) -> Iterator[tuple[str, ast.AST]]:
    place = path.relative_to(ROOT).as_posix()
    left: list[tuple[ast.AST, str]] = [(ast.parse(path.read_text("utf-8")), "")]
    while left:
        node, function = left.pop()
        if isinstance(node, ast.FunctionDef):
            function = node.name
        yield f"{place}:{function}", node
        left.extend((child, function) for child in ast.iter_child_nodes(node))


@cache
def _used() -> Mapping[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for place, node in nodes():
        if isinstance(node, ast.Attribute):
            found[node.attr].add(place)
        elif isinstance(node, ast.Name):
            found[node.id].add(place)
    return found


def uses(name: str) -> set[str]:
    """Return where an attribute or a plain name is used."""
    return _used().get(name, set())


def test_nothing_of_ours_calls_sendmail() -> None:
    assert FILES
    assert uses("sendmail") == set()


def test_nothing_of_ours_prints_the_dialogue() -> None:
    assert uses("set_debuglevel") | uses("debuglevel") == set()


def test_octets_leave_through_two_functions_only() -> None:
    assert uses("sendall") == {"smtp/session.py:_write"}
    assert {place for place in uses("send") if place.startswith("smtp/")} == {
        "smtp/body.py:write_body"
    }


def test_verification_is_switched_off_in_one_place_and_by_one_setting() -> None:
    assert uses("CERT_NONE") == uses("check_hostname") == {"smtp/tls.py:tls_context"}
    assert uses("_create_unverified_context") == set()
    [(_, function)] = [
        (place, node)
        for place, node in nodes()
        if isinstance(node, ast.FunctionDef) and node.name == "tls_context"
    ]
    off = [node for node in ast.walk(function) if isinstance(node, ast.If)]
    assert [ast.unparse(branch.test) for branch in off] == ["not verify"]
    inside = {node.attr for node in ast.walk(off[0]) if isinstance(node, ast.Attribute)}
    assert {"CERT_NONE", "check_hostname"} <= inside


def test_smtplib_is_spoken_on_the_smtp_floor_only() -> None:
    importers = {
        place.split(":")[0]
        for place, node in nodes()
        if isinstance(node, ast.Import) and any(alias.name == "smtplib" for alias in node.names)
    }
    assert importers == {"smtp/reply_reader.py", "smtp/session.py", "smtp/session_errors.py"}


def test_nothing_is_pickled() -> None:
    text = "\n".join(path.read_text("utf-8") for path in [*FILES, ROOT.parent / "celeryconfig.py"])
    assert "import pickle" not in text
    assert "from pickle" not in text
