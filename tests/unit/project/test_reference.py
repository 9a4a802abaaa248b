"""What the reference says of settings and verbs is what the code says.

`python -m tests.unit.project.test_reference` writes the table of settings anew.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from outbox import Outbox
from outbox.domain.config.settings import Settings
from outbox.flask_ext.management.management import Management

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
SETTINGS = REFERENCE / "settings.md"
BEGIN, END = "<!-- settings -->\n", "<!-- /settings -->\n"


def settings() -> str:
    """Return the table of settings."""
    rows = [
        f"| `OUTBOX_{field.name.upper()}` | {_shown(field.default)} | {field.metadata['doc']} |"
        for field in dataclasses.fields(Settings)
    ]
    return "\n".join(["| key | default | what |", "| --- | --- | --- |", *rows]) + "\n"


def with_settings(text: str) -> str:
    """Return the page with the table of settings between its marks."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + settings() + END + rest.partition(END)[2]


def test_every_setting_is_listed_with_its_default_and_its_meaning() -> None:
    text = SETTINGS.read_text(encoding="utf-8")
    assert BEGIN in text
    assert text == with_settings(text)


def test_every_verb_is_listed_once() -> None:
    text = (REFERENCE / "verbs.md").read_text(encoding="utf-8")
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `")]
    listed = [name for row in rows for name in re.findall(r"`(\w+)\(", row)]
    verbs = {name for name in vars(Management) if not name.startswith("_")}
    assert set(listed) == verbs | {"cancel", "counts"}
    assert all(callable(getattr(Outbox, name)) for name in listed)


def _shown(value: object) -> str:
    return "empty" if value in ("", (), None) else f"`{value}`"


if __name__ == "__main__":
    SETTINGS.write_text(with_settings(SETTINGS.read_text(encoding="utf-8")), encoding="utf-8")
