"""`make demo`: the shop with everything it needs, on this machine alone, until Ctrl-C.

    python -m webapp.demo [--db sqlite|postgres|mariadb] [--state .demo]

supervisord runs the processes. A Procfile runner would end everything when one process dies.
supervisord starts a killed worker again, and stops and starts the SMTP server on request.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

from .banner import banner, kill_worker
from .databases import database
from .environment import leave_out_foreign
from .programs import Ports, Sockets, supervisor_config, usual_port
from .readiness import await_all, explanation
from .redis_server import NOTHING, RedisServer, find
from .state_folder import CONFIG, Refused, own_folder, socket_folder, starting_alone
from .supervision import supervised
from .tools import write_tools

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Run the demo; return 0 after Ctrl-C, or 1 if it could not start."""
    options = _options()
    stop = threading.Event()
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, lambda *_: stop.set())
    try:
        return _run(options.db, options.state.resolve(), stop)
    except Refused as refusal:
        print(refusal)
        return 1
    except subprocess.CalledProcessError:
        if stop.is_set():  # Ctrl-C also reached PostgreSQL's tools while they prepared it
            return 0
        raise


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m webapp.demo")
    parser.add_argument("--db", choices=["sqlite", "postgres", "mariadb"], default="sqlite")
    parser.add_argument("--state", type=Path, default=ROOT / ".demo", help="emptied at the start")
    return parser.parse_args()


def _run(kind: str, state: Path, stop: threading.Event) -> int:
    redis = find()
    if redis is None:
        raise Refused(NOTHING)
    given = dict(os.environ)
    leave_out_foreign(os.environ)  # PostgreSQL's own programs, started from here, read PGPORT
    with ExitStack() as running:
        running.enter_context(own_folder(state))
        print("Starting the demo …", flush=True)
        sockets = Sockets(folder=running.enter_context(socket_folder(state)))
        url = running.enter_context(database(kind, state, sockets.folder))
        with starting_alone(stop):
            ports = Ports.free(web=usual_port(given), flower=5555)
            environment = _prepare(state, sockets, ports, url, redis, given)
            demo = running.enter_context(
                supervised(state / CONFIG, sockets.supervisord, environment, _say)
            )
            if not await_all(state, ports, demo, stop):
                if not stop.is_set():
                    print(explanation(state, demo))
                return 0 if stop.is_set() else 1
        print(banner(state, ports, redis), flush=True)
        while not stop.wait(0.2) and demo.process.poll() is None:
            pass
        print("\nStopping …", flush=True)
    return 0


def _say(text: str) -> None:
    print(f"  {text}", flush=True)


def _prepare(
    state: Path,
    sockets: Sockets,
    ports: Ports,
    database_url: str,
    redis: RedisServer,
    given: Mapping[str, str],
) -> dict[str, str]:
    """Fill the database, write a person's tools; return the environment of all processes.

    Of what a person has `given` only the lease is taken over.
    """
    own = _environment(state, sockets, ports, database_url)
    if "OUTBOX_LEASE" in given:
        own["OUTBOX_LEASE"] = given["OUTBOX_LEASE"]
    environment = os.environ | own
    subprocess.run(
        [sys.executable, "-m", "flask", "--app", "webapp", "init-db"],
        cwd=ROOT,
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # so that a Ctrl-C reaches this process only
    )
    (state / CONFIG).write_text(supervisor_config(state, ports, sockets, redis))
    write_tools(state, sockets, own)
    return environment


def _environment(state: Path, sockets: Sockets, ports: Ports, database_url: str) -> dict[str, str]:
    """Return what the demo's processes and a person's tools read."""
    return {
        "DATABASE_URL": database_url,
        "REDIS_URL": f"redis+socket://{quote(str(sockets.redis))}",
        "MAIL_SERVER": "127.0.0.1",
        "MAIL_PORT": str(ports.smtp),
        "SECRET_KEY": secrets.token_hex(32),
        "PUBLIC_URL": f"http://127.0.0.1:{ports.web}",
        "FLOWER_URL": f"http://127.0.0.1:{ports.flower}/",
        "DEMO_INBOX": str(state / "inbox"),
        "DEMO_KILL_WORKER": kill_worker(state),
        "FLASK_SKIP_DOTENV": "1",  # .env has the secrets of compose.yaml
        "PYTHONUNBUFFERED": "1",
    }


if __name__ == "__main__":
    sys.exit(main())
