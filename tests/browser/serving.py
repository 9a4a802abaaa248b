"""A server in a thread, for a browser beside it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from werkzeug.serving import BaseWSGIServer


@contextmanager
def serving(server: BaseWSGIServer) -> Iterator[None]:
    """Have the server answer until the end of the block."""
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
