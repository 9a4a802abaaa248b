"""Sends what is due to a scripted server, through the worker's own code."""

from __future__ import annotations

from dataclasses import replace

from ..domain.config.routing import Routes
from ..worker.drain import drain
from ..worker.process.runtime import Runtime
from .enqueued import Delivery
from .replies import Replies
from .smtp_server import ScriptedServer


def send(runtime: Runtime, replies: Replies) -> tuple[Delivery, ...]:
    """Send until no email is due; return what the server took, in its order."""
    with ScriptedServer(replies) as server:
        local = _beside(runtime, server.port)
        try:
            drain(local)
        finally:
            local.disconnect()
    return tuple(server.taken)


def _beside(runtime: Runtime, port: int) -> Runtime:
    """Return a runtime like this one, whose servers are all at this port of loopback.

    They keep their names, rates and caps, so that routes and breakers do what they do in the app.
    The app's own runtime stays as it is: nothing that uses it meanwhile can send.
    """
    servers = tuple(
        replace(
            server,
            label=server.name,
            host="127.0.0.1",
            port=port,
            security="none",
            username=None,
            password=None,
        )
        for server in runtime.servers
    )
    made = Runtime(
        app=runtime.app,
        settings=runtime.settings,
        servers=servers,
        routes=Routes.read(runtime.settings.routes, servers),
        tables=runtime.tables,
        engine=lambda: runtime.database.engine,
        engines=lambda: (),
        celery=lambda: None,
    )
    made.database = runtime.database  # with its offset, and what it has built
    made.random = runtime.random
    return made
