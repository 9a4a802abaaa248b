"""The TLS context of a server's sessions: read again when its file of certificates is replaced."""

from __future__ import annotations

import os
import ssl
from functools import lru_cache
from typing import TYPE_CHECKING

from ..domain.delivery.reply_table import Event
from .reply_reader import NoReply

if TYPE_CHECKING:
    from ..domain.config.servers import ServerSettings

Version = tuple[int, int, int]


def context_of(server: ServerSettings) -> ssl.SSLContext:
    """Return the context for a session with this server. Raises NoReply if there is none."""
    ca_file = server.tls_ca_file
    try:
        return current_context(ca_file, server.tls_verify)
    except OSError as error:  # its text lacks the file's name
        what = "OUTBOX_TLS_CA_FILE" if ca_file else "the system's CA bundle"
        text = f"{what} cannot be read: {type(error).__name__}: {error}"
        raise NoReply(Event.LACKING, text) from None


def current_context(ca_file: str, verify: bool) -> ssl.SSLContext:
    """Return a context with the certificates that the CA bundle has now; "" is the system's.

    A worker runs for months, and a bundle is replaced meanwhile.
    """
    if ca_file:
        return tls_context(ca_file, verify, (_version(ca_file),))
    paths = ssl.get_default_verify_paths()
    known = [path for path in (paths.cafile, paths.capath) if path is not None]
    return tls_context(ca_file, verify, tuple(map(_version, known)))


@lru_cache(maxsize=8)
def tls_context(ca_file: str, verify: bool, _: tuple[Version, ...]) -> ssl.SSLContext:
    """Return a context that verifies certificate and name, unless the user says otherwise.

    It is cached for a version of its files: reading the system's CA bundle costs more than sending
    a hundred emails.
    """
    context = ssl.create_default_context(cafile=ca_file or None)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _version(path: str) -> Version:
    """Return what changes when a file is written anew, or another one takes its place."""
    found = os.stat(path)
    return found.st_mtime_ns, found.st_size, found.st_ino
