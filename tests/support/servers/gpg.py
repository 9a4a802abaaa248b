"""GnuPG with a home and a key of the test run's own."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from tests.support.servers import leash
from tests.support.servers.missing import missing

_USER = "shop@shop.example"


def sign(data: bytes) -> bytes:
    """Return a detached signature in ASCII. No agent is left running."""
    try:
        return _run("--armor", "--local-user", _USER, "--detach-sign", given=data)
    finally:
        _end_agent()


def verifies(data: bytes, signature: bytes) -> bool:
    """Tell whether this is a signature of ours over these octets."""
    file = _home() / "signature.asc"
    file.write_bytes(signature)
    try:
        _run("--verify", str(file), "-", given=data)
    except subprocess.CalledProcessError:
        return False
    finally:
        _end_agent()
    return True


@cache
def _home() -> Path:
    home = Path(mkdtemp(prefix="outbox-gpg-"))
    leash.hold(home)
    _run("--quick-gen-key", _USER, "ed25519", "sign", "never", home=home)
    return home


def _run(*arguments: str, given: bytes = b"", home: Path | None = None) -> bytes:
    gpg = shutil.which("gpg") or missing("GnuPG", "apt install gnupg")
    quiet = ["--batch", "--no-tty", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""]
    run = subprocess.run(
        [gpg, "--homedir", home or _home(), *quiet, *arguments],
        input=given,
        env={**os.environ, "LC_ALL": "C"},
        check=True,
        capture_output=True,
    )
    return run.stdout


def _end_agent() -> None:
    subprocess.run(["gpgconf", "--homedir", _home(), "--kill", "all"], check=True)
