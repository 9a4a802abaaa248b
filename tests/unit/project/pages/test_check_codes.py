"""Each code of `check` is used, and stands in the page on commands."""

from __future__ import annotations

import re
from pathlib import Path

from outbox.flask_ext.management.checks.codes import Code

ROOT = Path(__file__).parents[4]
PAGE = ROOT / "docs/reference/commands.md"


def test_the_page_on_commands_has_each_code_and_no_other() -> None:
    _, _, section = PAGE.read_text().partition("### Codes of `check`")
    told = re.findall(r"^\| `([a-z-]+)` \|", section.partition("\n## ")[0], re.MULTILINE)
    assert told == list(map(str, Code))


def test_each_code_is_one_of_a_finding() -> None:
    files = (ROOT / "outbox/flask_ext").rglob("*.py")
    used = set(re.findall(r"\bCode\.([A-Z_]+)\b", "".join(file.read_text() for file in files)))
    assert used == {code.name for code in Code}
