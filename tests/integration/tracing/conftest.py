"""An app that records spans in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from unittest.mock import patch

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import Span


class Recording:
    """A provider, and the spans that it has recorded."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self.provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self._memory = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._memory))

    def request(self, name: str = "POST /order") -> AbstractContextManager[Span]:
        """Return a request's span, which is the current one within the block."""
        return self.provider.get_tracer("shop").start_as_current_span(name)

    @property
    def windows(self) -> Sequence[ReadableSpan]:
        """The spans of windows that have ended."""
        return [one for one in self._memory.get_finished_spans() if one.name.startswith("send ")]

    def used(self) -> AbstractContextManager[object]:
        """Make it the process's provider within the block: OpenTelemetry's own call is for good."""
        return patch.object(trace, "get_tracer_provider", lambda: self.provider)


@pytest.fixture
def recording() -> Iterator[Recording]:
    made = Recording()
    with made.used():
        yield made
    made.provider.shutdown()
