"""Each window has a span. It links to the requests, counts, and tells nothing of an email."""

from __future__ import annotations

import json
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from outbox import Status
from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.transaction import Reply, Verdict
from outbox.worker.batch.batch_results import Results
from outbox.worker.batch.window_span import window_span
from outbox.worker.drain import drain
from outbox.worker.tracing import MOST_LINKS
from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shop import Shop, Shops, entry, message, sent
from tests.support.shop.steps.raising import raise_when

from .conftest import Recording

ONE = pytest.mark.one_database("sqlite")


def linked(span: ReadableSpan) -> list[tuple[int, int, int, bool]]:
    return [seen(link.context) for link in span.links]


def seen(context: SpanContext, *, is_remote: bool = True) -> tuple[int, int, int, bool]:
    return context.trace_id, context.span_id, int(context.trace_flags), is_remote


def counts(span: ReadableSpan) -> dict[str, int]:
    start = "outbox.emails."
    found = dict(span.attributes or {}).items()
    return {name.removeprefix(start): int(str(n)) for name, n in found if name.startswith(start)}


def enqueue(shop: Shop, recording: Recording, *to: str, count: int = 1) -> SpanContext:
    """Enqueue emails in a request; return its context."""
    with recording.request() as span:
        for _ in range(count):
            shop.enqueue(*to)
    return span.get_span_context()


@pytest.mark.each_database
def test_a_window_s_span_links_once_to_each_request(sending: Shop, recording: Recording) -> None:
    first = enqueue(sending, recording, count=2)
    second = enqueue(sending, recording)
    sending.enqueue()
    drain(sending.runtime)
    [span] = recording.windows
    assert linked(span) == [seen(first), seen(second)]
    assert span.parent is None
    port = sending.app.config["MAIL_PORT"]
    assert (span.name, span.kind) == (f"send 127.0.0.1:{port}", SpanKind.CLIENT)
    assert dict(span.attributes or {}) == {
        "messaging.system": "smtp",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.batch.message_count": 4,
        "server.address": "127.0.0.1",
        "server.port": port,
        "outbox.server": f"127.0.0.1:{port}",
        "outbox.emails.sent": 4,
        "outbox.emails.failed": 0,
        "outbox.emails.unknown": 0,
        "outbox.emails.waiting": 0,
    }
    assert span.status.status_code is StatusCode.UNSET
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.name == "outbox"


@ONE
def test_each_window_has_its_own_and_a_batch_s_task_is_the_parent(
    shops: Shops, catcher: Catcher, recording: Recording
) -> None:
    shop = shops.open(MAIL_PORT=catcher.port, OUTBOX_WINDOW=2)
    requests = [enqueue(shop, recording) for _ in range(3)]
    with recording.request("the Celery task") as task:
        drain(shop.runtime)
    assert [linked(span) for span in recording.windows] == [
        [seen(requests[0]), seen(requests[1])],
        [seen(requests[2])],
    ]
    assert [span.parent for span in recording.windows] == [task.get_span_context()] * 2


@ONE
def test_a_mixed_window_is_no_error_and_counts_how_each_email_ended(
    sending: Shop, catcher: Catcher, recording: Recording
) -> None:
    replies = {"gone": "550 5.1.1 no such user", "busy": "451 4.3.0 later"}
    catcher.reply_to_recipient = lambda to: replies.get(to.partition("@")[0])
    for to in ("a@x.example", "gone@y.example", "busy@z.example"):
        enqueue(sending, recording, to)
    enqueue(sending, recording, "b@x.example", "gone@x.example")
    drain(sending.runtime)
    [span] = recording.windows
    assert counts(span) == {"sent": 2, "failed": 1, "unknown": 0, "waiting": 1}
    assert span.status.status_code is StatusCode.UNSET
    said = json.dumps([span.name, dict(span.attributes or {}), span.status.description])
    assert not any(word in said for word in ("example", "Order", "user", "@"))
    assert not span.events


@ONE
def test_a_window_of_which_nothing_was_sent_is_an_error(
    sending: Shop, catcher: Catcher, recording: Recording
) -> None:
    catcher.reply_to_recipient = lambda _: "550 5.1.1 no such user"
    enqueue(sending, recording)
    drain(sending.runtime)
    [span] = recording.windows
    assert counts(span) == {"sent": 0, "failed": 1, "unknown": 0, "waiting": 0}
    assert (span.attributes or {})["error.type"] == "fail"
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)


@pytest.mark.each_database
def test_what_a_killed_worker_left_is_linked_once_more_by_the_span_that_sends_it(
    sending: Shop, recording: Recording
) -> None:
    request = enqueue(sending, recording)
    sending.lose(1)  # its window was open, and its span is lost with the process
    drain(sending.runtime)
    [span] = recording.windows
    assert linked(span) == [seen(request)]
    assert sending.status(1) is Status.SENT


@ONE
def test_an_exception_that_ends_a_window_is_named_without_its_text(
    sending: Shop, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = enqueue(sending, recording)
    with monkeypatch.context() as patch:
        raise_when(patch, lambda _: True, SystemExit)
        with pytest.raises(SystemExit):
            drain(sending.runtime)
    drain(sending.runtime)
    broken, whole = recording.windows
    assert linked(broken) == linked(whole) == [seen(request)]
    assert (broken.attributes or {})["error.type"] == "SystemExit"
    assert broken.status.status_code is StatusCode.ERROR
    assert (Counter(counts(whole))["sent"], broken.events) == (1, ())


@pytest.mark.long
@ONE
def test_the_links_are_bounded(shops: Shops, catcher: Catcher, recording: Recording) -> None:
    shop = shops.open(MAIL_PORT=catcher.port, OUTBOX_WINDOW=200, OUTBOX_BATCH=200)
    with shop.session() as session:
        for _ in range(MOST_LINKS + 2):
            with recording.request():
                shop.outbox.enqueue(message(), session=session)
        session.commit()
    drain(shop.runtime)
    [span] = recording.windows
    assert (len(span.links), span.dropped_links) == (MOST_LINKS, 0)
    assert counts(span)["sent"] == MOST_LINKS + 2


@ONE
def test_unsampled_requests_are_linked_and_an_unsampled_window_is_sent_without_a_span(
    sending: Shop, recording: Recording
) -> None:
    unsampled = Recording(ALWAYS_OFF)
    request = enqueue(sending, unsampled)
    assert not request.trace_flags.sampled
    drain(sending.runtime)
    [span] = recording.windows
    assert linked(span) == [seen(request)]
    enqueue(sending, recording)
    with unsampled.used():
        drain(sending.runtime)
    assert len(recording.windows) == 1
    assert sending.statuses() == ["sent", "sent"]


@ONE
def test_a_result_that_is_taken_back_or_goes_on_is_not_counted(
    shop: Shop, recording: Recording
) -> None:
    results = Results(shop.runtime, UUID(int=1), progress=bool, is_told=lambda: True)
    emails = [SimpleNamespace(traceparent=None)] * 3
    server = SimpleNamespace(host="mx.example", port=25, name="mx")
    span = window_span(cast(Any, emails), cast(Any, SimpleNamespace(server=server)), results)
    span.begin()
    part = Outcome(status=Status.SENDING, reply=Reply(code=250), again=True)
    results.add(entry(1, part, Verdict.UNKNOWN))
    results.add(sent(1))
    doubt = Outcome(status=Status.PENDING, reply=Reply(code=0), unknown_total=1)
    results.add(entry(2, doubt, Verdict.UNKNOWN))
    refused = Outcome(status=Status.FAILED, reply=Reply(code=550))
    results.add(entry(3, refused, Verdict.FAIL))
    assert results.withdraw([3]) == {3}
    span.end()
    results.record()  # it is exported behind that
    assert counts(recording.windows[0]) == {"sent": 1, "failed": 0, "unknown": 1, "waiting": 1}
