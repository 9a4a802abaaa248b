"""What the README says of the settings is what the code says."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from outbox import Outbox
from outbox.domain.config.settings import Settings
from outbox.flask_ext.management.management import Management

README = Path(__file__).parents[3] / "README.md"


def test_the_readme_lists_every_setting_with_its_default_and_its_meaning() -> None:
    text = README.read_text()
    table = text[text.index("<!-- settings -->") : text.index("<!-- /settings -->")]
    rows = [line for line in table.splitlines() if line.startswith("| `OUTBOX_")]
    expected = [
        f"| `OUTBOX_{field.name.upper()}` | {_shown(field.default)} | {field.metadata['doc']} |"
        for field in dataclasses.fields(Settings)
    ]
    assert rows == expected


def test_the_readme_lists_every_verb_once() -> None:
    text = README.read_text()
    table = text[text.index("### From Python") : text.index("### Signals")]
    rows = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| `")]
    listed = [name for row in rows for name in re.findall(r"`(\w+)\(", row)]
    verbs = {name for name in vars(Management) if not name.startswith("_")}
    assert set(listed) == verbs | {"cancel", "counts"}
    assert all(callable(getattr(Outbox, name)) for name in listed)


def _shown(value: object) -> str:
    return "empty" if value in ("", (), None) else f"`{value}`"
