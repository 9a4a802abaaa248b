"""What the reference says of settings, commands and verbs is what the code says.

`python -m tests.unit.project.pages.test_reference` writes the settings and the commands anew.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

import outbox.celery_config
import outbox.dashboard
import outbox.metrics
import outbox.testing
from outbox import Outbox
from outbox.domain.config.settings import Settings
from outbox.domain.config.typed_values import MOST
from outbox.flask_ext.all_verbs import AllVerbs
from outbox.flask_ext.cli.commands import commands
from outbox.worker.log_events import LOGGED

ROOT = Path(__file__).parents[4]
PACKAGE = ROOT / "outbox"
REFERENCE = ROOT / "docs" / "reference"
PUBLIC = (outbox, outbox.celery_config, outbox.dashboard, outbox.metrics, outbox.testing)
"""The modules that an app imports."""


def settings() -> str:
    """Return the table of settings, and the bound of those that have none of their own."""
    rows = [
        f"| `OUTBOX_{one.name.upper()}` | {_shown(one.default)} | {_bounds(one.metadata)}"
        f" | {one.metadata['doc']} |"
        for one in dataclasses.fields(Settings)
    ]
    head = ["| key | default | bounds | what |", "| --- | --- | --- | --- |"]
    return "\n".join([*head, *rows]) + f"\n\nNo number may be greater than {MOST:,}.\n"


def _bounds(rules: Mapping[str, Any]) -> str:
    if rules["least"] is None:
        return ""
    ends = f"{rules['least']:,g}", f"{rules['most']:,g}"
    return f"at least {ends[0]}" if rules["most"] == MOST else " to ".join(ends)


def helps() -> str:
    """Return what `--help` says of each command."""
    return (
        "\n" + "\n".join(_helps(commands, click.Context(commands, info_name="flask outbox"))) + "\n"
    )


def _helps(group: click.Group, above: click.Context, before: str = "") -> Iterator[str]:
    for name, command in sorted(group.commands.items()):
        context = click.Context(command, above, info_name=name, terminal_width=78)
        text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
        yield f"### {before}{name}\n\n```text\n{text}\n```\n"
        if isinstance(command, click.Group):
            yield from _helps(command, context, f"{before}{name} ")


MADE: dict[str, Callable[[], str]] = {"settings": settings, "commands": helps}
"""The pages with a part that is made of the code, between two comments that name it."""


def made_anew(name: str) -> tuple[str, str]:
    """Return a page as it is, and as it must be."""
    text = (REFERENCE / f"{name}.md").read_text(encoding="utf-8")
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
    before, _, rest = text.partition(begin)
    assert rest, f"{name}.md has no {begin}"
    return text, before + begin + MADE[name]() + end + rest.partition(end)[2]


@pytest.mark.parametrize("name", MADE)
def test_a_page_says_what_the_code_says(name: str) -> None:
    text, wanted = made_anew(name)
    assert text == wanted


def test_every_verb_is_listed_once() -> None:
    text = (REFERENCE / "verbs.md").read_text(encoding="utf-8")
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `")]
    listed = [name for row in rows for name in re.findall(r"`(\w+)\(", row)]
    verbs = {name for name in dir(AllVerbs) if not name.startswith("_")}
    assert set(listed) == verbs | {"cancel", "counts"}
    assert all(callable(getattr(Outbox, name)) for name in listed)


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_the_api_has_every_public_name_once(module: ModuleType) -> None:
    text = (REFERENCE / "api.md").read_text(encoding="utf-8")
    listed = re.findall(
        rf"^\.\. [a-z:]+:: {re.escape(module.__name__)}\.(\w+)$", text, re.MULTILINE
    )
    assert sorted(listed) == sorted(module.__all__)


def test_every_event_of_the_log_is_listed() -> None:
    """The events are read from the code: each is the value of a key "event"."""
    text = (REFERENCE / "log.md").read_text(encoding="utf-8")
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `")]
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    sources = "".join(file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py"))
    written = re.findall(r'"event": f?"([\w{}]+)"', sources)
    ends = [f"email_{status}" for status in LOGGED]
    assert "email_{status}" in written
    assert sorted(listed) == sorted({*written, *ends} - {"email_{status}"})


def _shown(value: object) -> str:
    if isinstance(value, tuple) and all(isinstance(word, str) for word in value):
        value = tuple(map(str, value))  # the words of an enum
    return "empty" if value in ("", (), None) else f"`{value}`"


if __name__ == "__main__":
    for each in MADE:
        (REFERENCE / f"{each}.md").write_text(made_anew(each)[1], encoding="utf-8")
