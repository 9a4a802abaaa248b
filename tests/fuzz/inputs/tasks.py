"""A forged, old or garbled task changes nothing, and the worker lives on.

Raw messages in a real Redis, a real worker, and a table with an email in each state that a task
could harm: one that waits, one under a live lease, one sent.
"""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.message import EmailMessage
from itertools import count
from typing import Any
from uuid import uuid4

import redis
import sqlalchemy as sa
from hypothesis import strategies as st

from outbox.domain.priority import Priority
from outbox.store.transitions.start import start
from tests.fuzz.campaign import Property
from tests.fuzz.inputs.texts import ANY, HOSTILE
from tests.fuzz.worker import ECHO
from tests.support.garbled import Forged
from tests.support.servers.brokers.redis import RedisServer
from tests.support.servers.celery_process import CeleryProcess
from tests.support.shop.steps.claims import claim_batch
from tests.support.system.app import create_app, db, outbox
from tests.support.waiting import wait_until

QUEUE = "outbox.normal"
GONE = object()
"""In the place of a header: there is none."""

FAR = datetime(2200, 1, 1, tzinfo=UTC)
SECRETS = ("private-address", "private-subject", "private-body")
PATIENCE = 60.0

_TOKENS: st.SearchStrategy[Any] = st.one_of(
    st.uuids().map(str),
    st.sampled_from(["LIVE", "OLD"]),  # a token that was started, and one that is over
    st.uuids().map(lambda token: token.hex.upper()),
    st.sampled_from(["", "0" * 32, "{" + "0" * 32 + "}", "urn:uuid:" + "0" * 32, "' OR 1=1 --"]),
    HOSTILE,
)
_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY | _TOKENS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY, inner, max_size=3),
    max_leaves=6,
)
_ARGS: st.SearchStrategy[Any] = st.one_of(
    _TOKENS.map(lambda token: [token]), st.lists(_JSON, max_size=3), _JSON
)
_KWARGS: st.SearchStrategy[Any] = st.one_of(
    st.just({}), st.dictionaries(st.sampled_from(["token", "self", "x"]), _JSON, max_size=2), _JSON
)
_TASKS = st.sampled_from(["outbox.send"] * 8 + ["outbox.sweep", "outbox.purge", "outbox.nothing"])


class Trap:
    """Would end the worker, were it ever unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit('unpickled')",))


_YAML = b"!!python/object/apply:os._exit [1]"
_BODIES: st.SearchStrategy[tuple[str, bytes]] = st.one_of(
    st.tuples(_ARGS, _KWARGS, st.just({})).map(lambda body: ("json", json.dumps(body).encode())),
    st.tuples(st.sampled_from(["json", "data"]), _JSON.map(lambda body: json.dumps(body).encode())),
    st.tuples(st.sampled_from(["json", "data"]), st.binary(max_size=20)),
    st.just(("x-python-serialize", pickle.dumps(([Trap()], {}, {})))),
    st.just(("x-yaml", _YAML)),
)
_HEADERS = (
    "id", "task", "timelimit", "expires", "eta", "shadow", "stamped_headers", "stamps", "retries",
    "root_id", "parent_id", "group", "argsrepr", "kwargsrepr", "origin", "lang", "ignore_result",
)  # fmt: skip
_CHANGES = st.dictionaries(
    st.sampled_from(_HEADERS),
    st.one_of(st.just(GONE), _JSON, st.lists(_JSON, max_size=3)),
    max_size=2,
)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """A message as Celery puts it on a Redis list, with faults.

    It is a message: what kombu itself cannot read ends its worker, see docs/reliability.md.
    """
    task, (kind, body) = draw(_TASKS), draw(_BODIES)
    headers: dict[str, Any] = {
        "lang": "py", "task": task, "id": str(draw(st.uuids())), "root_id": "x", "parent_id": None,
        "group": None, "retries": 0, "timelimit": [None, None], "argsrepr": "", "kwargsrepr": "",
        "origin": "forged", "eta": None, "expires": None, "ignore_result": True,
    }  # fmt: skip
    headers = {k: v for k, v in {**headers, **draw(_CHANGES)}.items() if v is not GONE}
    return Forged(headers=headers, body=body, content_type=f"application/{kind}").envelope(QUEUE)


@contextmanager
def properties(url: str) -> Iterator[list[Property]]:
    """Start Redis and a worker of one process on this database."""
    with RedisServer() as server:
        config = {
            "SECRET_KEY": "for this test only",
            "SQLALCHEMY_DATABASE_URI": url,
            "REDIS_URL": server.url,
            "MAIL_PORT": 1,
            "OUTBOX_LEASE": 86_400.0,
            "OUTBOX_NUDGE": False,
        }
        app = create_app(config)
        with app.app_context():
            tokens = _filled(app)
            try:
                environment = {"ACCEPTANCE_CONFIG": json.dumps(config)}
                with CeleryProcess(
                    "tests.fuzz.worker", "worker", "--concurrency=1", environment=environment
                ) as worker:
                    broker = _Broker(server, worker, tokens)
                    inputs = st.lists(messages(), min_size=1, max_size=25)
                    yield [
                        Property(
                            source="task messages", inputs=inputs, holds=broker.holds, size=len
                        )
                    ]
            finally:
                db.session.remove()
                db.engine.dispose()


def _filled(app: Any) -> dict[str, str]:
    """Write three emails, of which one is under a lease and one is over; return the tokens."""
    db.create_all()
    runtime = app.extensions["outbox"].runtime
    tokens = {}
    for name in ("OLD", "LIVE"):
        outbox.enqueue(_mail(name))
        db.session.commit()
        [made] = claim_batch(runtime.database, Priority.NORMAL, 1, lease_seconds=86_400)
        tokens[name] = str(made.token)
        if name == "OLD":
            outbox.cancel(id=1)
            db.session.commit()
            runtime.database.run(
                lambda connection: connection.execute(sa.delete(runtime.tables.lease))
            )
    start(runtime.database, made.token, lease_seconds=86_400, worker="another")
    outbox.enqueue(_mail("later"), send_at=FAR)
    db.session.commit()
    return tokens


def _mail(name: str) -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["To"] = "shop@shop.example", f"{SECRETS[0]}-{name}@x.example"
    mail["Subject"] = SECRETS[1]
    mail.set_content(SECRETS[2])
    return mail


class _Broker:
    def __init__(self, server: RedisServer, worker: CeleryProcess, tokens: dict[str, str]) -> None:
        self._redis = redis.Redis.from_url(server.url)
        self._worker = worker
        self._tokens = tokens
        self._marks = count()
        self._before = _dump()

    def holds(self, forged: list[bytes]) -> None:
        mark = str(next(self._marks))
        pipeline = self._redis.pipeline()
        for message in forged:
            for name, token in self._tokens.items():
                wrapped = base64.b64encode(json.dumps(name).encode()).decode()
                message = message.replace(wrapped.encode(), token.encode())
            pipeline.lpush(QUEUE, message)
        pipeline.execute()
        db.session.expire_all()
        self._echo(mark)
        wait_until(lambda: self._heard(mark), PATIENCE, self._silence)
        assert self._worker.running
        assert _dump() == self._before, "a forged task changed the table"
        printed = self._worker.printed()
        assert not [secret for secret in SECRETS if secret in printed]

    def _echo(self, mark: str) -> None:
        headers = {"lang": "py", "task": ECHO, "id": str(uuid4()), "ignore_result": True}
        echo = Forged(headers=headers, body=json.dumps([[mark], {}, {}]).encode())
        self._redis.lpush(QUEUE, echo.envelope(QUEUE))

    def _heard(self, mark: str) -> bool:
        if not self._worker.running:
            raise AssertionError(f"the worker ended: {self._worker.printed()[-3000:]}")
        return mark.encode() in self._redis.lrange(ECHO, -1, -1)

    def _silence(self) -> str:
        return f"the worker to come to the end of its queue: {self._worker.printed()[-3000:]}"


_OWN = ("outbox_counter", "outbox_instance", "outbox_worker")
"""What a worker writes of itself, and of the tasks that it refuses."""


def _dump() -> dict[str, list[Any]]:
    """Every row but those that a worker writes for itself."""
    tables = [table for table in db.metadata.sorted_tables if table.name not in _OWN]
    with db.engine.connect() as connection:
        return {
            table.name: [tuple(row) for row in connection.execute(sa.select(table))]
            for table in tables
        }
