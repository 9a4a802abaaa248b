"""What the README says of the settings is what the code says."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from outbox.domain.config.settings import Settings

README = Path(__file__).parents[2] / "README.md"


def test_the_readme_lists_every_setting_with_its_default_and_its_meaning() -> None:
    text = README.read_text()
    table = text[text.index("<!-- settings -->") : text.index("<!-- /settings -->")]
    rows = [line for line in table.splitlines() if line.startswith("| `OUTBOX_")]
    expected = [
        f"| `OUTBOX_{field.name.upper()}` | {_shown(field.default)} | {field.metadata['doc']} |"
        for field in dataclasses.fields(Settings)
    ]
    assert rows == expected


def _shown(value: object) -> str:
    return "empty" if value in ("", (), None) else f"`{value}`"
