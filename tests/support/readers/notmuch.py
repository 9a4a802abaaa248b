"""notmuch, which reads with GMime, as several desktop programs do."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.corpus.meant import Pair
from tests.support.readers.seen import Seen
from tests.support.servers.missing import missing

_CONFIG = ".notmuch-config"
_ID = re.compile(rb"^Message-ID: *<(.+)>\r?$", re.IGNORECASE | re.MULTILINE)
_SHOWN = {"Subject", "From", "To", "Cc", "Bcc", "Reply-To", "Date"}  # with names in quotes
_ADDRESS = r'(?:"(?:[^"\\]|\\.)*"|[^\s<>,"]+)@[^\s<>,"]+'
_PERSON = re.compile(rf"(?:(?P<bare>{_ADDRESS})|(?P<name>.*?) <(?P<address>{_ADDRESS})>)(?:, |$)")
_FOLD = re.compile(r"\r?\n[ \t]+")
_NAME = re.compile(rb"^([!-9;-~]+):", re.MULTILINE)


def read(messages: Mapping[str, bytes], folder: Path) -> dict[str, Seen]:
    """Return what notmuch reads in these messages; it makes an index of the folder."""
    for number, data in enumerate(messages.values()):
        (folder / str(number)).write_bytes(data)
    names = {name for data in messages.values() for name in _names(data)}
    (folder / _CONFIG).write_text(
        f"[database]\npath={folder}\n[user]\nprimary_email=reader@x.example\n"
        f"[new]\ntags=\n[show]\nextra_headers={';'.join(sorted(names))}\n"
    )
    _run(folder, "new", "--quiet")
    options = ["--format=json", "--include-html", "--entire-thread=true", "*"]
    told = {each["id"]: each for each in _messages(json.loads(_run(folder, "show", *options)))}
    return {name: _seen(told.get(_id(data)), folder) for name, data in messages.items()}


def _names(message: bytes) -> list[str]:
    head = message.partition(b"\r\n\r\n")[0]
    return [name.decode() for name in _NAME.findall(head) if name.decode() not in _SHOWN]


def _id(message: bytes) -> str:
    found = _ID.search(message)
    assert found, message[:500]
    return found[1].decode()


def _messages(told: Any) -> Iterator[dict[str, Any]]:
    """Yield the messages of threads, of messages with their replies."""
    if isinstance(told, dict):
        yield told
    elif told is not None:
        for each in told:
            yield from _messages(each)


def _seen(told: dict[str, Any] | None, folder: Path) -> Seen:
    if told is None:
        return Seen(subject="", sender=[], to=[], failure="is not indexed")
    headers = told["headers"]
    own = {header.lower(): value for header, value in headers.items()}
    seen = Seen(
        subject=headers["Subject"],
        sender=_people(headers["From"]),
        to=_people(headers.get("To", "")),
        cc=_people(headers.get("Cc", "")),
        reply_to=_people(headers.get("Reply-To", "")),
        fields=own,
    )
    for part in told["body"]:
        _take(seen, part, folder, f"id:{told['id']}")
    return seen


def _people(shown: str) -> list[Pair]:
    """Return the pairs of what is shown: a name may have quotes around it, or bare ones in it."""
    pairs = []
    for found in _PERSON.finditer(_FOLD.sub(" ", shown)):
        name = found["name"] or ""
        if len(name) > 1 and name[0] == name[-1] == '"':
            name = re.sub(r"\\(.)", r"\1", name[1:-1])
        pairs.append((name, found["bare"] or found["address"]))
    return pairs


def _take(seen: Seen, part: dict[str, Any], folder: Path, query: str) -> None:
    kind = part["content-type"].lower()
    is_file = part.get("content-disposition") == "attachment" or "content-id" in part
    if isinstance(part.get("content"), list) and kind.startswith("multipart/"):
        for inner in part["content"]:
            _take(seen, inner, folder, query)
    elif is_file or "filename" in part or not kind.startswith("text/"):
        data = _run(folder, "show", "--format=raw", f"--part={part['id']}", query)
        seen.keep(kind, part.get("filename"), data, part.get("content-id", ""))
    else:
        content = part.get("content")  # only some types are shown
        if content is None:
            content = _run(folder, "show", "--format=raw", f"--part={part['id']}", query).decode()
        seen.take(kind, content)


def _run(folder: Path, *arguments: str) -> bytes:
    program = shutil.which("notmuch") or missing("notmuch", "apt install notmuch")
    run = subprocess.run(
        [program, *arguments],
        env={**os.environ, "NOTMUCH_CONFIG": str(folder / _CONFIG), "HOME": str(folder)},
        check=True,
        capture_output=True,
    )
    return run.stdout
