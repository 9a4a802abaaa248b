"""The demo's processes and their ports, as a configuration for supervisord."""

from __future__ import annotations

import shlex
import socket
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Ports:
    """Free ports of the loopback interface."""

    web: int
    flower: int
    smtp: int
    redis: int

    @classmethod
    def free(cls, *, web: int, flower: int) -> Ports:
        """Return the usual ports, each replaced by another one if it is not free."""
        chosen: list[int] = []
        for usual in (web, flower, 2525, 6399):
            chosen.append(_free(usual, taken=chosen))
        return cls(web=chosen[0], flower=chosen[1], smtp=chosen[2], redis=chosen[3])


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


def programs(state: Path, ports: Ports, *, redis_server: str) -> dict[str, list[str]]:
    """Return each process's command line."""
    python = [sys.executable, "-m"]
    celery = [*python, "celery", "-A", "webapp"]
    return {
        "redis": [
            redis_server, "--bind", "127.0.0.1", "--port", str(ports.redis), "--dir", str(state),
            "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction",
        ],
        "inbox": [
            *python, "webapp.demo.catcher",
            "--port", str(ports.smtp), "--maildir", str(state / "inbox"),
        ],
        "web": [
            *python, "gunicorn", "--bind", f"127.0.0.1:{ports.web}", "--workers", "1",
            "--threads", "8", "--no-control-socket", "webapp:create_app()",
        ],
        "worker": [*celery, "worker", "--concurrency", "2", "--events", "--loglevel", "INFO"],
        "beat": [*celery, "beat", "--schedule", str(state / "beat-schedule")],
        "flower": [
            *celery, "flower", "--address=127.0.0.1", f"--port={ports.flower}", "--read_only",
        ],
    }  # fmt: skip


def supervisor_config(state: Path, ports: Ports, *, redis_server: str) -> str:
    """Return supervisord.conf. It has no secrets: they come from the environment."""
    commands = programs(state, ports, redis_server=redis_server)
    head = HEAD.format(state=_escape(str(state)))
    parts = [
        PROGRAM.format(
            name=name,
            command=_escape(shlex.join(command)),
            log=_escape(str(state / "log" / f"{name}.log")),
            priority=1 if name == "redis" else 2,  # Redis starts first and stops last
        )
        for name, command in commands.items()
    ]
    return head + "".join(parts)


def _escape(value: str) -> str:
    return value.replace("%", "%%")


HEAD = """\
[supervisord]
nodaemon=true
silent=true
logfile={state}/log/supervisord.log
pidfile={state}/supervisord.pid
childlogdir={state}/log

[unix_http_server]
file={state}/supervisor.sock
chmod=0700

[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface

[supervisorctl]
serverurl=unix://{state}/supervisor.sock
"""

PROGRAM = """
[program:{name}]
command={command}
priority={priority}
autorestart=true
startsecs=1
stopwaitsecs=15
killasgroup=true
redirect_stderr=true
stdout_logfile={log}
stdout_logfile_maxbytes=20MB
stdout_logfile_backups=1
"""
