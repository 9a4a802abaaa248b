"""All sources of input, and what each needs to run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzz.campaign import Property
from tests.fuzz.inputs import commands, config, emails, pages, replies, tasks
from tests.support.servers.databases import sqlite
from tests.support.servers.server import memory

Opened = AbstractContextManager[list[Property]]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Sources that run on the same parts."""

    open: Callable[[str], Opened]  # with the URL of an empty database
    examples: dict[str, int]  # of each source in the test suite


KINDS = {
    "emails": Kind(
        open=emails.properties,
        examples={"addresses": 120, "headers": 120, "file names": 80, "bodies": 80},
    ),
    "replies": Kind(open=lambda _: replies.properties(), examples={"SMTP replies": 300}),
    "tasks": Kind(open=tasks.properties, examples={"task messages": 60}),
    "commands": Kind(open=commands.properties, examples={"CLI arguments": 150}),
    "settings": Kind(open=lambda _: config.properties(), examples={"settings": 250}),
    "pages": Kind(
        open=pages.properties,
        examples={
            "web forms": 100,
            "web paths and queries": 100,
            "the dashboard's queries": 200,
            "emails shown": 150,
        },
    ),
}


@contextmanager
def fresh_database() -> Iterator[str]:
    """Make an SQLite database of its own."""
    with TemporaryDirectory(prefix="outbox-fuzz-", dir=memory()) as directory:
        yield sqlite.new_database(Path(directory))
