"""Go's standard library: net/mail and mime, which many services read with.

It knows UTF-8 and Latin-1 only: a text's octets become characters here, by the charset it read.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from tests.support.readers.seen import Seen, from_told
from tests.support.servers import leash
from tests.support.servers.missing import missing

_SOURCE = Path(__file__).with_name("reader.go")


def read(messages: Mapping[str, bytes], folder: Path) -> dict[str, Seen]:
    """Return what Go's library reads in these messages."""
    paths = [folder / str(number) for number in range(len(messages))]
    for path, data in zip(paths, messages.values(), strict=True):
        path.write_bytes(data)
    asked = "".join(f"{path}\n" for path in paths)
    run = subprocess.run([_built()], input=asked, check=True, capture_output=True, text=True)
    told = [json.loads(line) for line in run.stdout.splitlines()]
    return {name: from_told(each, _text) for name, each in zip(messages, told, strict=True)}


@cache
def _built() -> Path:
    """Build it once in a test run, from its one file and what Debian has of Go: no network."""
    go = shutil.which("go") or missing("Go", "apt install golang-go")
    folder = Path(mkdtemp(prefix="outbox-go-"))
    leash.hold(folder)
    settings = {"GOCACHE": str(folder / "cache"), "GOTOOLCHAIN": "local", "GOPROXY": "off"}
    more = {"GOFLAGS": "-mod=mod", "GOPATH": str(folder / "path")}
    program = folder / "reader"
    built = subprocess.run(
        [go, "build", "-o", program, _SOURCE.name],
        cwd=_SOURCE.parent,
        env={**os.environ, **settings, **more},
        check=False,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    return program


def _text(data: bytes, charset: str) -> str:
    return data.decode(charset or "us-ascii")
