"""A fork while a thread publishes, as with `gunicorn --preload`: the children can publish, too."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.servers.brokers.broker import Broker

pytestmark = [pytest.mark.each_broker, pytest.mark.one_database("sqlite")]

SECONDS = 60
CLIENTS = {"redis": "kombu.transport.redis", "amqp": "kombu.transport.pyamqp"}

_SERVER = """
import os, signal, sys, threading
from email.message import EmailMessage
from importlib.machinery import PathFinder
from celery import Celery
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.pool import StaticPool
from outbox import Outbox
from outbox.celery_config import configure

_, broker_url, client = sys.argv
began, is_forked = threading.Event(), threading.Event()


class Slow:
    "Finds the module of the broker's client, whose import lasts until the fork is over."

    def find_spec(self, name, path, target=None):
        if name != client:
            return None
        spec = PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def hold(module):
            began.set()
            is_forked.wait(0.5)  # a fork that waits for this import cannot be over
            execute(module)

        spec.loader.exec_module = hold
        return spec


app, celery = Flask("shop"), Celery("shop", broker=broker_url)
app.config.update(
    SQLALCHEMY_DATABASE_URI="sqlite://", SQLALCHEMY_ENGINE_OPTIONS={"poolclass": StaticPool},
    MAIL_SERVER="127.0.0.1", SECRET_KEY="x",
)
db, outbox = SQLAlchemy(app), Outbox()
outbox.init_app(app, db=db)
configure(celery, app)
runtime = app.extensions["outbox"].runtime
assert client not in sys.modules
sys.meta_path.insert(0, Slow())
with app.app_context():
    db.create_all()
    started = EmailMessage()
    started["From"], started["To"] = "shop@shop.example", "ops@x.example"
    outbox.enqueue(started)
    db.session.commit()
assert began.wait(20)
if not (child := os.fork()):
    signal.alarm(20)  # ends a child that hangs
    code = 1
    try:
        celery.send_task("own", queue="own")
        runtime.publish_sweep()
        code = 0
    finally:
        os._exit(code)
is_forked.set()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.long
def test_a_child_that_is_forked_within_the_first_publish_can_publish(broker: Broker) -> None:
    client = CLIENTS[broker.url.partition(":")[0].removeprefix("py")]
    done = subprocess.run(
        [sys.executable, "-c", _SERVER, broker.url, client],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (done.stdout, done.returncode) == ("0\n", 0), done.stderr
    assert "no sweep was asked for" not in done.stderr
    assert broker.waiting() == 1
