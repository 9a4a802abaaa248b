"""The demo's processes and their ports, as a configuration for supervisord."""

from __future__ import annotations

import re
import shlex
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .redis_server import RedisServer
from .state_folder import Refused

_COMMENT = re.compile(r"\s[;#]|[\r\n]")
"""What supervisord takes for a comment or for the next line. It can be escaped by nothing."""


def usual_port(environ: Mapping[str, str]) -> int:
    """Return the port that a person wants for the shop; raise Refused if it is none."""
    given = environ.get("PORT") or "5000"
    if not (given.isdecimal() and len(given) <= 5 and 0 < int(given) < 65_536):
        raise Refused("PORT must be a number from 1 to 65535.")
    return int(given)


@dataclass(frozen=True, kw_only=True)
class Ports:
    """Free ports of the loopback interface."""

    web: int
    flower: int
    smtp: int

    @classmethod
    def free(cls, *, web: int, flower: int) -> Ports:
        """Return the usual ports, each replaced by another one if it is not free."""
        chosen: list[int] = []
        for usual in (web, flower, 2525):
            chosen.append(_free(usual, taken=chosen))
        return cls(web=chosen[0], flower=chosen[1], smtp=chosen[2])


def _free(usual: int, *, taken: list[int]) -> int:
    for port in (usual, 0):
        if port in taken:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("no free port on 127.0.0.1")


@dataclass(frozen=True, kw_only=True)
class Sockets:
    """The sockets that are files, in a folder that only the demo's owner may enter."""

    folder: Path

    @property
    def redis(self) -> Path:
        """Redis listens here, and on no port."""
        return self.folder / "redis.sock"

    @property
    def supervisord(self) -> Path:
        """supervisorctl speaks to supervisord over this one."""
        return self.folder / "supervisor.sock"


KEEP_NOTHING = frozenset({"beat", "flower", "redis"})
"""They have nothing to finish, so they are not asked to end. Celery's processes take half a second
of CPU for their end alone, and would take it from the worker."""


def programs(
    state: Path, ports: Ports, sockets: Sockets, redis: RedisServer
) -> dict[str, list[str]]:
    """Return each process's command line."""
    python = [sys.executable, "-m"]
    celery = [*python, "celery", "-A", "webapp"]
    return {
        "redis": redis.listening(port=0, unix=sockets.redis),
        "inbox": [
            *python, "webapp.demo.catcher",
            "--port", str(ports.smtp), "--maildir", str(state / "inbox"),
        ],
        "web": [
            *python, "gunicorn", "--bind", f"127.0.0.1:{ports.web}", "--workers", "1",
            "--threads", "8", "--graceful-timeout", "1", "--no-control-socket",
            "webapp:create_app()",
        ],
        "worker": [
            *celery, "worker", "--pool", "threads", "--concurrency", "4", "--events",
            "--loglevel", "INFO",
        ],
        "beat": [*celery, "beat", "--schedule", str(state / "beat-schedule")],
        "flower": [
            *celery, "flower", "--address=127.0.0.1", f"--port={ports.flower}", "--read_only",
        ],
    }  # fmt: skip


def supervisor_config(state: Path, ports: Ports, sockets: Sockets, redis: RedisServer) -> str:
    """Return supervisord.conf. It has no secrets: they come from the environment."""
    head = HEAD.format(state=_escape(str(state)), socket=_escape(str(sockets.supervisord)))
    parts = [
        PROGRAM.format(
            name=name,
            command=_escape(shlex.join(command)),
            log=_escape(_escape(str(state / "log" / f"{name}.log"))),  # supervisord reads it twice
            priority=1 if name == "redis" else 2,  # Redis starts first
            signal="KILL" if name in KEEP_NOTHING else "TERM",
        )
        for name, command in programs(state, ports, sockets, redis).items()
    ]
    return head + "".join(parts)


def _escape(value: str) -> str:
    if _COMMENT.search(value):
        raise Refused(
            "supervisord cannot read a path with a line break, or with a blank before ; or #."
            " Give another --state, or another folder to this checkout."
        )
    return value.replace("%", "%%")


HEAD = """\
[supervisord]
nodaemon=true
silent=true
logfile={state}/log/supervisord.log
pidfile={state}/supervisord.pid
childlogdir={state}/log
umask=077

[unix_http_server]
file={socket}
chmod=0700

[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface

[supervisorctl]
serverurl=unix://{socket}
"""

PROGRAM = """
[program:{name}]
command={command}
priority={priority}
autorestart=true
startsecs=1
stopsignal={signal}
stopwaitsecs=5
killasgroup=true
redirect_stderr=true
stdout_logfile={log}
stdout_logfile_maxbytes=20MB
stdout_logfile_backups=1
"""
