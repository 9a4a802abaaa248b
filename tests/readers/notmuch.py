"""notmuch, which reads with GMime, as several desktop programs do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from email.utils import getaddresses
from pathlib import Path
from typing import Any

from tests.readers.seen import Seen, lines
from tests.servers.missing import missing


def read(message: Path, message_id: str) -> Seen:
    """Return what notmuch reads in this file; it makes an index in its folder."""
    _run(message.parent, "new", "--quiet")
    query = f"id:{message_id.strip('<>')}"
    options = ["--format=json", "--entire-thread=false", "--include-html"]
    told = json.loads(_run(message.parent, "show", *options, query))
    while isinstance(told, list):  # threads, of messages with their replies
        told = told[0]
    headers = told["headers"]
    name, _, address = headers["From"].rpartition("<")  # its name stands without quotes
    seen = Seen(
        subject=headers["Subject"],
        sender=[(name.strip().strip('"'), address.rstrip(">"))],
        to=getaddresses([headers["To"]]),
    )
    for part in told["body"]:
        _take(seen, part, message.parent, query)
    return seen


def _take(seen: Seen, part: dict[str, Any], folder: Path, query: str) -> None:
    if isinstance(part.get("content"), list):
        for inner in part["content"]:
            _take(seen, inner, folder, query)
    elif part.get("content-disposition") == "attachment":
        data = _run(folder, "show", "--format=raw", f"--part={part['id']}", query)
        seen.files.append((part["filename"], data))
    elif part["content-type"] == "text/html":
        seen.htmls.append(lines(part["content"]))
    else:
        seen.texts.append(lines(part["content"]))


def _run(folder: Path, *arguments: str) -> bytes:
    program = shutil.which("notmuch") or missing("notmuch", "apt install notmuch")
    config = folder / ".notmuch-config"
    if not config.exists():
        config.write_text(f"[database]\npath={folder}\n[user]\nprimary_email=reader@x.example\n")
    run = subprocess.run(
        [program, *arguments],
        env={**os.environ, "NOTMUCH_CONFIG": str(config), "HOME": str(folder)},
        check=True,
        capture_output=True,
    )
    return run.stdout
