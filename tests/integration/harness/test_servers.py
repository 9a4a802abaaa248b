"""The harness itself: a server that cannot be trusted proves nothing."""

import os
import signal
import smtplib
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from kombu import connection as kombu
from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, inspect, text

from tests.support.servers import family
from tests.support.servers.brokers.rabbitmq import RabbitMQ
from tests.support.servers.brokers.redis import RedisServer
from tests.support.servers.celery_process import CeleryProcess
from tests.support.servers.databases.mariadb import MariaDB
from tests.support.servers.databases.postgres import Postgres
from tests.support.servers.ports import accepts, free_port
from tests.support.servers.server import Server
from tests.support.servers.smtp.catcher import Catcher
from tests.support.servers.smtp.smtp_sink import SmtpSink
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.each_database]

ROOT = Path(__file__).parents[3]

MAIL = EmailMessage()
MAIL["Message-ID"] = "<1@shop.test>"
MAIL["Subject"] = "Order 1"
MAIL.set_content("Thank you.\n.\n")


def send(port: int, *recipients: str) -> dict[str, tuple[int, bytes]]:
    with smtplib.SMTP("127.0.0.1", port, timeout=10) as client:
        return client.send_message(MAIL, "shop@shop.test", list(recipients))


@pytest.mark.parametrize("make", [RedisServer, SmtpSink, Postgres, MariaDB])
def test_a_server_survives_its_own_death_and_leaves_nothing_behind(
    make: Callable[[], Server],
) -> None:
    with make() as server:
        assert server.answers()
        first = server.processes()
        server.kill_9()
        assert not family.living(first)
        assert not server.answers()
        server.start()
        second = server.processes()
        assert server.answers()
    assert not family.living(second)
    assert not server.answers()
    assert not server.directory.exists()
    assert not server.data.exists()


def test_a_database_is_fresh_and_keeps_unicode(database_url: str) -> None:
    table = Table("order", MetaData(), Column("id", Integer, primary_key=True))
    table.append_column(Column("note", String(20)))
    engine = create_engine(database_url)
    assert inspect(engine).get_table_names() == []
    table.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(table.insert().values(id=1, note="Grüße 🎉"))
        assert connection.scalar(table.select().with_only_columns(table.c.note)) == "Grüße 🎉"
    engine.dispose()


@pytest.mark.databases("postgresql", "mariadb")
def test_a_marker_restricts_the_databases(database_url: str) -> None:
    assert not database_url.startswith("sqlite")


def test_commits_survive_the_death_of_postgres() -> None:
    with Postgres(durable=False) as server:
        engine = create_engine(server.new_database(), pool_pre_ping=True)
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE t AS SELECT 42 AS answer"))
            assert connection.scalar(text("SHOW server_version")).startswith("18.")
        server.kill_9()
        server.start()
        with engine.connect() as connection:
            assert connection.scalar(text("SELECT answer FROM t")) == 42
        engine.dispose()


def test_a_frozen_redis_accepts_connections_and_stays_silent(redis: RedisServer) -> None:
    redis.freeze()
    with socket.create_connection(("127.0.0.1", redis.port), timeout=0.1) as connection:
        connection.sendall(b"PING\r\n")
        with pytest.raises(TimeoutError):
            connection.recv(10)
        redis.thaw()
        connection.settimeout(10)
        assert connection.recv(10) == b"+PONG\r\n"


def test_a_stopped_redis_comes_back_on_its_port_and_has_forgotten_all(redis: RedisServer) -> None:
    redis.ask(b"SET mail 1")
    assert redis.ask(b"DBSIZE") == b":1\r\n"
    redis.stop()
    assert not accepts(redis.port)
    redis.start()
    assert redis.ask(b"DBSIZE") == b":0\r\n"


@pytest.mark.long
def test_rabbitmq_passes_messages_on_and_leaves_nothing_behind() -> None:
    connect: Any = kombu.Connection
    with RabbitMQ() as rabbitmq:
        processes = rabbitmq.processes() | rabbitmq.port_mapper.processes()
        with connect(rabbitmq.url) as connection:
            queue = connection.SimpleQueue("emails")
            queue.put("an email")
            assert queue.get(timeout=10).payload == "an email"
            queue.close()
    assert not family.living(processes)
    assert not accepts(rabbitmq.port)


def test_smtp_sink_counts_what_it_accepts(smtp_sink: SmtpSink) -> None:
    send(smtp_sink.port, "ann@example.org")
    send(smtp_sink.port, "bob@example.org")
    wait_until(lambda: smtp_sink.accepted() == 2, 10, "two emails in the count")


def test_the_catcher_remembers_an_accepted_email_byte_by_byte(catcher: Catcher) -> None:
    send(catcher.port, "ann@example.org", "bob@example.org")
    (mail,) = catcher.emails
    assert mail.sender == "shop@shop.test"
    assert mail.recipients == ("ann@example.org", "bob@example.org")
    assert mail.message_id == "<1@shop.test>"
    assert mail.content.endswith(b"\r\n\r\nThank you.\r\n.\r\n")
    assert catcher.copies()["ann@example.org", "<1@shop.test>"] == 1


def test_the_catcher_answers_each_recipient_as_it_is_told(catcher: Catcher) -> None:
    catcher.reply_to_recipient = {"bob@example.org": "550 5.1.1 No Bob here"}.get
    refused = send(catcher.port, "ann@example.org", "bob@example.org")
    assert refused == {"bob@example.org": (550, b"5.1.1 No Bob here")}
    assert catcher.emails[0].recipients == ("ann@example.org",)


def test_the_catcher_holds_a_reply_until_the_gate_opens(catcher: Catcher) -> None:
    gate = catcher.hold_at("reply")
    with smtplib.SMTP("127.0.0.1", catcher.port, timeout=10) as client:
        client.ehlo()
        client.mail("shop@shop.test")
        client.rcpt("ann@example.org")
        client.docmd("DATA")
        client.send(b"Message-ID: <2@shop.test>\r\n\r\nHello\r\n.\r\n")
        wait_until(lambda: gate.reached == 1, 10, "the final dot to arrive")
        assert [mail.message_id for mail in catcher.emails] == ["<2@shop.test>"]
        gate.open()
        assert client.getreply()[0] == 250


def test_a_stopped_catcher_breaks_its_sessions_and_comes_back_on_its_port(catcher: Catcher) -> None:
    with smtplib.SMTP("127.0.0.1", catcher.port, timeout=10) as client:
        client.ehlo()
        catcher.stop()
        with pytest.raises(smtplib.SMTPServerDisconnected):
            client.noop()
        with pytest.raises(ConnectionRefusedError):
            send(catcher.port, "ann@example.org")
    catcher.start()
    send(catcher.port, "ann@example.org")
    assert len(catcher.emails) == 1
    wait_until(lambda: catcher.open_sessions == 0, 10, "the sessions to end")


@pytest.fixture
def probe(tmp_path: Path, redis: RedisServer) -> Path:
    (tmp_path / "probe.py").write_text(
        "from celery import Celery\n"
        f"app = Celery('probe', broker={redis.url!r})\n"
        "app.conf.beat_schedule = {'tick': {'task': 'probe.touch', 'schedule': 0.1}}\n"
        "@app.task(ignore_result=True)\n"
        "def touch():\n"
        "    open('touched', 'w').close()\n"
    )
    return tmp_path


@pytest.mark.long
def test_a_worker_does_what_beat_asks_and_dies_with_its_children(probe: Path) -> None:
    worker = CeleryProcess("probe", "worker", "--concurrency=2", working_directory=probe)
    beat = CeleryProcess("probe", "beat", working_directory=probe)
    with worker:
        with beat:
            wait_until((probe / "touched").exists, 20, "the task to run")
        members = worker.processes()
        assert len(members) == 3, "a parent and two pool children"
        worker.kill_9()
        assert not family.living(members)
        worker.start()
        assert worker.stop() == 0, "a warm shutdown"


def test_a_server_dies_with_a_test_run_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from tests.support.servers.brokers.redis import RedisServer\n"
        "server = RedisServer().__enter__()\n"
        "print(server.pid, server.port, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as run:
        assert run.stdout is not None
        pid, port = map(int, run.stdout.readline().split())
        redis = family.family(pid)
        assert accepts(port)
        run.kill()
    try:
        wait_until(lambda: not family.living(redis), 10, "Redis to follow its test run")
        wait_until(lambda: not any(tmp_path.iterdir()), 10, "its directories to be removed")
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(("ends", "status"), [(True, 0), (False, 70)])
def test_a_daemon_that_outlives_its_command_is_found_and_killed(ends: bool, status: int) -> None:
    daemon = "import os, threading; os.setsid(); print(os.getpid(), flush=True)"
    if not ends:
        daemon += "; os.close(1); os.close(2); threading.Event().wait()"
    starter = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {daemon!r}])"
    result = subprocess.run(
        [sys.executable, "-m", "tests.support.servers.survivors", sys.executable, "-c", starter],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == status, result.stderr
    assert not family.family(int(result.stdout))


def test_a_free_port_is_none_that_a_client_is_given() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(free_port() < lowest for _ in range(100))
