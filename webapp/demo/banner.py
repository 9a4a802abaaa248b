"""The text that a started demo prints: where everything is, and what to try."""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path

from .programs import Ports
from .redis_server import RedisServer


def banner(state: Path, ports: Ports, redis: RedisServer) -> str:
    """Return the addresses, and the commands as they are typed in this folder."""
    web = f"http://127.0.0.1:{ports.web}"
    return f"""
  ┌───────────────────────────────────────────────
  │  Shop     {web}/
  │  Inbox    {web}/inbox
  │  Outbox   {web}/outbox/
  │  Flower   http://127.0.0.1:{ports.flower}/
  │  SMTP     127.0.0.1:{ports.smtp}, which takes every email into the inbox
  └───────────────────────────────────────────────
  Redis is {redis.name}.

  Look into the outbox from another terminal:
    {tool(state, "flask")} outbox stats          (and: progress, list, show 1, check)

  Break it while a newsletter goes out, and watch its page:
    kill -9 the worker    {kill_worker(state)}
    stop the SMTP server  {tool(state, "supervisorctl")} stop inbox     (and: start inbox)
    empty Redis           {tool(state, "empty-redis")}

  Logs are in {_short(state / "log")}. The state is deleted at the next start.
  Ctrl-C stops everything."""


def kill_worker(state: Path) -> str:
    """Return the command that kills the worker with its pool: the pool alone would go on."""
    return f"kill -9 -$({tool(state, 'supervisorctl')} pid worker)"


def tool(state: Path, name: str) -> str:
    """Return how a tool of the demo is called from this folder."""
    path = _short(state / name)
    return shlex.quote(path if "/" in path else f"./{path}")


def _short(path: Path) -> str:
    with suppress(ValueError):
        return str(path.relative_to(Path.cwd()))
    return str(path)
