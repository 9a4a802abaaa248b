"""`docs/lifecycle.md` and its picture are made from the code's own table.

`python -m tests.unit.project.pages.test_lifecycle_page` writes both anew.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from outbox.domain.config.settings import Settings
from outbox.domain.delivery.status import ARROWS, Status
from outbox.worker.fleet.presence import LOOK
from tests.unit.project.pages.lifecycle_drawing import drawing

ROOT = Path(__file__).parents[4]
FOLDER = ROOT / "outbox" / "store" / "transitions"
PAGE = ROOT / "docs" / "lifecycle.md"
PICTURE = ROOT / "docs" / "images" / "lifecycle.svg"
NO_ARROW = {
    "enqueue": "(nothing) to `pending`",
    "start": "`claimed` stays: the lease begins",
}
"""Files whose step is between no two statuses."""

_NAME = re.compile("|".join(Status))

INTRODUCTION = """\
# The lifecycle of an email

This page is made from the table in `outbox/domain/delivery/status.py`, by
`python -m tests.unit.project.pages.test_lifecycle_page`. The database's constraints are made from
the same table.

The transaction that enqueues an email writes it as `pending`. A sweep claims it. A worker opens a
window, sends the email, and records what became of it. An email can come to be in doubt only while
it is `sending`, in an open window.
"""

_RESCUE = """\
## A worker that dies

A worker renews its lease after each third of `OUTBOX_LEASE`. So when it dies in the midst of a
batch, the lease runs out between two thirds of `OUTBOX_LEASE` later and a whole one. The next sweep
notes that. One whole `OUTBOX_LEASE` after the note, a sweep rescues the emails. This second lease
is for a worker that lives and could not reach the database: until the rescue it may renew.

A worker or a beat of the outbox that lives on the same host sees the death within a second: of a
child of its own, of another worker or of one of that worker's children. A worker that starts finds
the processes that ended before. The dead process's lease then runs out at once. Of another host, or
of another container, nothing is known.

If beat runs, the rescue comes {least:.0f} to {most:.0f} seconds after the death with the default
settings. Where its host has seen the death, it comes after {known_least:.0f} to {known_most:.0f}.
Without beat, and without `flask outbox sweep` from cron, it waits for the sweeps that commits
cause.

| an email of the batch that | until the rescue | after the rescue |
| --- | --- | --- |
| has a recorded result | keeps its result | keeps its result |
| waits for its window (`claimed`) | waits | is `pending`, due, and charged with a crash only |
| is in the open window (`sending`), at most {window} | waits | came into doubt; {doubt} |

A batch whose task never started waits for its first lease only, and nothing is charged. A dead
worker's batch keeps its slot until the lease runs out. It keeps its place under a server's
connection cap until the rescue, or until its host has seen the death. The emails of other batches
do not wait for the rescue. `flask outbox progress` shows the seconds until it.
"""

_DOUBT = (
    "under `resend` it is `pending`, an attempt is charged, and it is sent again after a backoff,"
    " of up to {backoff:g} s the first time; under `hold` it is `unknown`"
)


def rescue() -> str:
    """Return what becomes of a dead worker's emails, with the figures of the default settings."""
    settings = Settings()
    return _RESCUE.format(
        least=(2 / 3 + 1) * settings.lease,
        most=2 * (settings.lease + settings.sweep_interval),
        known_least=settings.lease,
        known_most=LOOK + settings.lease + 2 * settings.sweep_interval,
        window=settings.window,
        doubt=_DOUBT.format(backoff=settings.backoff[0]),
    )


def states() -> str:
    """Return the table of arrows."""
    rows = [
        f"| `{a.source}` | `{a.target}` | {a.when} | {', '.join(f'`{file}`' for file in a.files)} |"
        for a in ARROWS
    ]
    return "\n".join(["| from | to | when | made in |", "| --- | --- | --- | --- |", *rows]) + "\n"


def comments() -> str:
    """Return what each status means, as the enum says."""
    source = (ROOT / "outbox/domain/delivery/status.py").read_text()
    said = dict(re.findall(r'^    [A-Z]+ = "(\w+)"  # (.+)$', source, flags=re.MULTILINE))
    return "\n".join(
        ["| status | meaning |", "| --- | --- |"]
        + [f"| `{status}` | {said[status]} |" for status in Status]
    )


def files() -> str:
    """Return what each file of the folder says of itself, in its first sentence."""
    rows = ["| file | what it does |", "| --- | --- |"]
    for path in sorted(FOLDER.glob("[a-z]*.py")):
        told = ast.get_docstring(ast.parse(path.read_text())) or ""
        rows.append(f"| `{path.name}` | {told.splitlines()[0]} |")
    return "\n".join(rows)


def page() -> str:
    """Return the whole page."""
    return "\n".join(
        [
            INTRODUCTION,
            "## The statuses\n",
            comments(),
            f"\n![Each status, and the arrows between them](images/{PICTURE.name})\n",
            "## The arrows\n",
            "Each file stands in `outbox/store/transitions`.\n",
            states(),
            rescue(),
            "## The files\n",
            files(),
            "",
        ]
    )


def test_the_page_shows_the_lifecycle_as_the_code_has_it() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
    assert PICTURE.read_text(encoding="utf-8") == drawing()


def test_every_file_of_the_folder_makes_an_arrow_and_every_arrow_has_a_file() -> None:
    there = {path.stem for path in FOLDER.glob("[a-z]*.py")}
    named = {file for arrow in ARROWS for file in arrow.files}
    assert all(arrow.files for arrow in ARROWS)
    assert named | NO_ARROW.keys() == there
    assert not named & NO_ARROW.keys()


@pytest.mark.parametrize("file", sorted({file for arrow in ARROWS for file in arrow.files}))
def test_a_files_first_sentence_names_the_statuses_of_its_arrows(file: str) -> None:
    told = ast.get_docstring(ast.parse((FOLDER / f"{file}.py").read_text())) or ""
    before, _, after = told.splitlines()[0].partition(":")[0].partition(" → ")
    own = [arrow for arrow in ARROWS if file in arrow.files]
    assert set(_NAME.findall(before)) == {arrow.source for arrow in own}
    assert set(_NAME.findall(after)) == {arrow.target for arrow in own}


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    PICTURE.write_text(drawing(), encoding="utf-8")
