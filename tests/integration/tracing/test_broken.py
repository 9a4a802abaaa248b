"""An OpenTelemetry that raises stops no email; without it the outbox works as ever."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from outbox.worker import tracing
from outbox.worker.drain import drain
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops

from .conftest import Recording

pytestmark = pytest.mark.one_database("sqlite")

SECRET = "ada@x.example"
PATIENCE = 60.0


class Broken:
    """Raises at each call and attribute but for those that are given."""

    def __init__(self, **works: Any) -> None:
        self.__dict__.update(works)

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(SECRET)


class Exporter(SpanExporter):
    def export(self, spans: Any) -> SpanExportResult:
        raise RuntimeError(SECRET)


class Looking(SpanExporter):
    """Looks which statuses the emails have when the span of a window is exported."""

    def __init__(self, shop: Shop, seen: list[list[str]]) -> None:
        self._shop, self._seen = shop, seen

    def export(self, spans: Any) -> SpanExportResult:
        if any(span.name.startswith("send ") for span in spans):
            self._seen.append(self._shop.statuses())
        return SpanExportResult.SUCCESS


@pytest.fixture(autouse=True)
def _nothing_told() -> Iterator[None]:
    tracing._told.clear()
    yield
    tracing._told.clear()


def spans(span: Broken) -> Broken:
    """Return a provider whose tracers start this span."""
    return Broken(get_tracer=lambda *_: Broken(start_span=lambda *_, **__: span))


PROVIDERS: dict[str, Callable[[], Broken | None]] = {
    "no tracer": Broken,
    "no span": lambda: Broken(get_tracer=lambda *_: Broken()),
    "a span that cannot tell whether it records": lambda: spans(Broken()),
    "a span that takes nothing and does not end": lambda: spans(Broken(is_recording=lambda: True)),
    "no provider": lambda: None,
}
LIES: list[dict[str, Any]] = [
    {},
    {"trace_id": 2**130},
    {"trace_id": 0},
    {"trace_id": "x"},
    {"trace_id": 1, "span_id": -1},
]


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_provider_that_raises_stops_no_email(
    name: str, sending: Shop, catcher: Catcher, caplog: pytest.LogCaptureFixture
) -> None:
    sending.enqueue()
    sending.enqueue()
    with patch.object(trace, "get_tracer_provider", PROVIDERS[name]):
        drain(sending.runtime)
    assert sending.statuses() == ["sent", "sent"]
    assert set(catcher.copies().values()) == {1}
    told = [record for record in caplog.records if "OpenTelemetry" in record.message]
    assert [record.levelno for record in told] == [logging.ERROR]
    assert SECRET not in caplog.text
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_a_current_span_that_lies_or_raises_stops_no_enqueue(shop: Shop) -> None:
    for lie in LIES:
        context = Broken(is_valid=True, **({"span_id": 1, "trace_flags": 1} | lie))
        span = Broken(get_span_context=lambda context=context: context)
        with patch.object(trace, "get_current_span", lambda span=span: span):
            shop.enqueue()
    rows = shop.rows(shop.tables.email)
    assert [row.traceparent for row in rows] == [None] * len(LIES)


def test_an_exporter_that_raises_changes_no_outcome(sending: Shop) -> None:
    recording = Recording()
    recording.provider.add_span_processor(SimpleSpanProcessor(Exporter()))
    sending.enqueue()
    with recording.used():
        drain(sending.runtime)
    assert sending.statuses() == ["sent"]
    assert len(recording.windows) == 1


class Slow(Loader, MetaPathFinder):
    """Finds OpenTelemetry's module, and takes its time to fill it."""

    def __init__(self) -> None:
        self.began, self.goes_on = threading.Event(), threading.Event()

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname == "opentelemetry.trace" else None

    def exec_module(self, module: ModuleType) -> None:
        self.began.set()
        assert self.goes_on.wait(PATIENCE)


def test_an_import_that_another_thread_has_begun_is_no_failure(
    sending: Shop, catcher: Catcher, caplog: pytest.LogCaptureFixture
) -> None:
    slow = Slow()
    with patch.dict(sys.modules), patch.object(sys, "meta_path", [slow, *sys.meta_path]):
        del sys.modules["opentelemetry.trace"]
        with ThreadPoolExecutor(1) as pool:
            importing = pool.submit(import_module, "opentelemetry.trace")
            try:
                assert slow.began.wait(PATIENCE)
                assert sending.email_row(sending.enqueue().id).traceparent is None
                drain(sending.runtime)
            finally:
                slow.goes_on.set()
            importing.result()
    assert len(catcher.emails) == 1
    assert "OpenTelemetry" not in caplog.text


@pytest.mark.each_database
def test_no_result_that_is_known_waits_for_an_exporter(shops: Shops, catcher: Catcher) -> None:
    """One that hangs, in a worker that is killed then, would leave them unknown."""
    shop = shops.open(MAIL_PORT=catcher.port, OUTBOX_WINDOW=1, OUTBOX_SLOTS=1)
    seen, recording = list[list[str]](), Recording()
    recording.provider.add_span_processor(SimpleSpanProcessor(Looking(shop, seen)))
    shop.enqueue()
    shop.enqueue()
    with recording.used():
        drain(shop.runtime)
    assert seen == [["sent", "sending"], ["sent", "sent"]]


@pytest.mark.long
def test_the_outbox_does_not_import_it_and_works_where_it_is_not_installed(
    catcher: Catcher,
) -> None:
    for blocked in (True, False):
        catcher.forget()
        words = [sys.executable, "-c", _APP, str(catcher.port), str(blocked)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (done.stdout, done.returncode) == ("sent None\n", 0), done.stderr
        assert len(catcher.emails) == 1


_APP = """
import sys
_, port, blocked = sys.argv
if blocked == "True":
    sys.modules["opentelemetry"] = None
from email.message import EmailMessage
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.pool import StaticPool
from outbox import Outbox
from outbox.worker.drain import drain

app, db, outbox = Flask("shop"), SQLAlchemy(), Outbox()
app.config.update(
    SQLALCHEMY_DATABASE_URI="sqlite://", MAIL_SERVER="127.0.0.1", MAIL_PORT=int(port),
    SQLALCHEMY_ENGINE_OPTIONS={"poolclass": StaticPool},
)
db.init_app(app)
outbox.init_app(app, db=db)
with app.app_context():
    db.create_all()
    mail = EmailMessage()
    mail["From"], mail["To"] = "shop@shop.example", "a@x.example"
    outbox.enqueue(mail)
    db.session.commit()
    drain(app.extensions["outbox"].runtime)
    email = outbox.get(1)
    print(email.status, email.trace_id)
assert "opentelemetry.trace" not in sys.modules
"""
