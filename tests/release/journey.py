"""An email's whole way, on the packages of the interpreter that runs this file.

`python journey.py DATABASE_URL... [--broker URL]` goes it on each database, and ends with "ok" or
with an error. It needs nothing of the tests. With a broker a real worker sends, too, on the last
database: Celery finds its app in this file as `journey`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from email.message import EmailMessage
from pathlib import Path

import sqlalchemy as sa
from celery import Celery
from flask import Flask
from flask_mail import Message
from sqlalchemy.orm import scoped_session, sessionmaker

try:
    from flask_sqlalchemy import SQLAlchemy
except ImportError:  # it is no requirement of the package
    SQLAlchemy = None  # type: ignore[assignment,misc]

from outbox import Outbox, OutboxMail, Status, celery_config, email_sent
from outbox.testing import OutboxTester, Replies
from outbox.testing.smtp_server import ScriptedServer
from outbox.worker.fleet import prefetching

DEADLINE = 60.0

metadata = sa.MetaData()
orders = sa.Table("orders", metadata, sa.Column("id", sa.Integer, primary_key=True))
outbox, mail = Outbox(), OutboxMail()


def create_app() -> Flask:
    """Make the shop from the environment's variables."""
    app = Flask("shop")
    app.config.update(
        SQLALCHEMY_DATABASE_URI=os.environ["DATABASE_URL"],
        TESTING="SMTP_PORT" not in os.environ,
        MAIL_SERVER="127.0.0.1",
        MAIL_PORT=int(os.environ.get("SMTP_PORT", "1")),
        MAIL_DEFAULT_SENDER="shop@shop.example",
    )
    app.extensions["celery"] = celery
    mail.init_app(app)
    if SQLAlchemy is None:
        engine = sa.create_engine(os.environ["DATABASE_URL"])
        app.extensions["session"] = scoped_session(sessionmaker(engine))
        outbox.init_app(app, session=app.extensions["session"], metadata=metadata, engine=engine)
        metadata.create_all(engine)
        return app
    db = SQLAlchemy(metadata=metadata)
    db.init_app(app)
    app.extensions["session"] = db.session
    outbox.init_app(app, db=db)
    with app.app_context():
        db.create_all()
    return app


def make_celery() -> Celery:
    """Make the worker's app."""
    made = Celery("shop", broker=os.environ.get("REDIS_URL"))
    made.conf.update(
        task_queues=celery_config.QUEUES,
        beat_schedule=celery_config.beat_schedule(),
        worker_hijack_root_logger=False,
    )
    return made


def message(subject: str, to: str = "ada@customers.example") -> Message:
    """Return a message with a text, HTML and a file."""
    made = Message(subject, [to], "Danke für 3 €!", html="<p>Danke für 3 €!</p>")
    made.attach("Rechnung für Ada.pdf", "application/pdf", b"%PDF")
    return made


def travel(app: Flask) -> None:
    """Enqueue, roll back, put off, fail, send: with the worker's code, in this process."""
    session, told = app.extensions["session"], []
    with app.app_context(), OutboxTester(app) as tester:
        with email_sent.connected_to(lambda _, ids: told.extend(ids)):
            session.execute(orders.insert().values(id=1))
            outbox.enqueue(message("Never"))
            session.rollback()
            session.execute(orders.insert().values(id=1))
            outbox.enqueue(message("Your order"), key="order-1", tag="order")
            assert not outbox.enqueue(message("Your order"), key="order-1").created
            outbox.enqueue(standard("Plain"), send_at=tester.now() + timedelta(days=7))
            news = Message("News for {{ name }}", body="Hello {{ name }}")
            readers: list[str | tuple[str, str]] = [
                "bob@readers.example",
                ("Eve", "eve@readers.example"),
            ]
            outbox.enqueue_many(news, readers, tag="news", fields=lambda one: {"name": one[:3]})
            mail.send(message("By the drop-in", "dropin@customers.example"))
            session.commit()
            tester.replies.at("RCPT", 451, "4.7.1 later", to="bob@readers.example", times=1)
            tester.replies.at("RCPT", 550, "5.1.1 unknown", to="eve@readers.example")
            subjects = {one.subject for one in tester.drain()}
            assert subjects == {"Your order", "By the drop-in"}, subjects
            tester.travel(days=8)
            assert {one.subject for one in tester.drain()} == {"News for bob", "Plain"}
            with tester.freeze():
                assert tester.now() == tester.now()
        assert outbox.counts() == {Status.SENT: 4, Status.FAILED: 1}, outbox.counts()
        assert len(told) == 4
        assert tester.assert_enqueued(key="order-1").attachments == ("Rechnung für Ada.pdf",)
    commands(app)


def standard(subject: str) -> EmailMessage:
    """Return a message of the standard library."""
    made = EmailMessage()
    made["From"], made["To"], made["Subject"] = (
        "shop@shop.example",
        "ada@customers.example",
        subject,
    )
    made.set_content("Thanks.")
    return made


def commands(app: Flask) -> None:
    """Run commands that need no broker."""
    run = app.test_cli_runner().invoke
    for words in ("stats", "list", "--version", "pause", "resume", "purge"):
        done = run(args=["outbox", *words.split()])
        assert done.exit_code == 0, (words, done.output)


def travel_asynchronously(app: Flask, database: str) -> None:
    """Enqueue and cancel in an AsyncSession over psycopg."""
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

    async def write() -> None:
        engine = create_async_engine(database)
        async with AsyncSession(engine) as session:
            await outbox.enqueue_async(message("Alone"), session=session, tag="coroutine")
            news = Message("News", body="Hello")
            readers = ["bob@readers.example", "eve@readers.example"]
            await outbox.enqueue_many_async(news, readers, session=session, tag="coroutine")
            assert await outbox.cancel_async(tag="coroutine", session=session) == 3
            await session.commit()
        await engine.dispose()

    with app.app_context():
        asyncio.run(write())
        assert outbox.counts("coroutine") == {Status.CANCELLED: 3}


def work(broker: str) -> None:
    """Have a real worker send what a commit wakes it for, and end it in order."""
    with ScriptedServer(Replies()) as server:
        os.environ |= {"REDIS_URL": broker, "SMTP_PORT": str(server.port)}
        # Without mingle, which waits a second for other workers: there are none.
        options = ["--concurrency=1", "--loglevel=info", "--without-mingle", "--without-gossip"]
        celery.conf.broker_url = broker
        options += prefetching.option(celery).split()  # the one that `check` advises
        command = [sys.executable, "-m", "celery", "-A", "journey", "worker", *options]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
        worker = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        try:
            enqueue_three(create_app())
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(DEADLINE) == 0
        finally:
            worker.kill()
            worker.wait()
    assert sorted(one.subject for one in server.taken) == ["Order 0", "Order 1", "Order 2"]


def enqueue_three(app: Flask) -> None:
    """Commit three emails, one after the other, and wait until they are sent."""
    with app.app_context():
        for number in range(3):
            outbox.enqueue(message(f"Order {number}"), tag="work")
            app.extensions["session"].commit()
        wait(lambda: outbox.counts("work") == {Status.SENT: 3}, "the worker to send")


def wait(condition: Callable[[], bool], what: str) -> None:
    """Wait until the condition holds."""
    deadline, pause = time.monotonic() + DEADLINE, threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"waited for {what}"
        pause.wait(0.05)


def main() -> None:
    """Go the way."""
    parser = argparse.ArgumentParser()
    parser.add_argument("databases", nargs="+")
    parser.add_argument("--broker")
    given = parser.parse_args()
    for database in given.databases:
        os.environ["DATABASE_URL"] = database
        app = create_app()
        travel(app)
        if sa.make_url(database).drivername == "postgresql+psycopg":
            travel_asynchronously(app, database)
    if given.broker is not None:
        work(given.broker)
    print("ok")


celery = make_celery()
if "REDIS_URL" in os.environ:
    create_app()
if __name__ == "__main__":
    main()
