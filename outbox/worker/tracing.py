"""OpenTelemetry, if the app uses it: the current span, and spans of the outbox's own.

The outbox does not import it, but looks whether the app did. An app that did not has no span, and
no provider that would record one. So without it all of this costs a look into `sys.modules`.

Whatever OpenTelemetry raises is logged once, and changes nothing for an email.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import ModuleType
from typing import Any, Self

from celery.exceptions import SoftTimeLimitExceeded

from ..domain.traceparent import TraceParent
from ..domain.version import __version__
from ..store.harmless_log import harmless_log

MOST_LINKS = 128
"""OpenTelemetry's default limit for the links of a span."""

Attributes = Mapping[str, str | int]

_told: set[str] = set()  # the errors that this process has logged


def traceparent() -> str | None:
    """Return the current span's context as `traceparent`, or None if there is no span."""
    api = _api()
    if api is None:
        return None
    with harmless():
        context = api.get_current_span().get_span_context()
        if context.is_valid:
            found = TraceParent(context.trace_id, context.span_id, context.trace_flags)
            return str(found) if found.is_valid else None
    return None


def is_on() -> bool:
    """Return whether the app has a provider of tracers. Without one nothing can be recorded."""
    api = _api()
    if api is None:
        return False
    with harmless():
        provider = api.get_tracer_provider()
        return not isinstance(provider, (api.ProxyTracerProvider, api.NoOpTracerProvider))
    return False


class Span:
    """A span that is the current one from its start to its end.

    The methods raise what OpenTelemetry raises: call them within `harmless`.
    """

    def __init__(self, api: ModuleType, span: Any) -> None:
        self._api = api
        self._span = span
        self._scope: AbstractContextManager[object] = api.use_span(
            span, end_on_exit=False, record_exception=False, set_status_on_exception=False
        )
        self._scope.__enter__()

    @classmethod
    def start(cls, name: str, attributes: Attributes, links: Iterable[str | None]) -> Self | None:
        """Start a span of a call to a server, with links to the contexts of these `traceparent`s.

        Unsampled contexts are linked, too; invalid ones are not.
        """
        api = _api()
        if api is None:
            return None
        tracer = api.get_tracer_provider().get_tracer("outbox", __version__)
        linked, kind = list(_links(api, links)), api.SpanKind.CLIENT
        return cls(api, tracer.start_span(name, kind=kind, attributes=attributes, links=linked))

    @property
    def is_recording(self) -> bool:
        """Whether what is told of it is kept: a sampler may have left it out."""
        return bool(self._span.is_recording())

    def leave(self, attributes: Attributes, error: str | None) -> Callable[[], None]:
        """Be the current one no more; take more attributes, and the kind of the error, if any.

        It returns what ends the span, as of now. An exporter may run then, and take its time.
        """
        ended_at = time.time_ns()
        try:
            if attributes:
                self._span.set_attributes(attributes)
            if error is not None:
                self._span.set_attribute("error.type", error)
                self._span.set_status(self._api.Status(self._api.StatusCode.ERROR))
        finally:
            self._scope.__exit__(None, None, None)
        return partial(self._span.end, ended_at)


@contextmanager
def harmless() -> Iterator[None]:
    """Log an error of OpenTelemetry, the first of each kind, and end the block."""
    try:
        yield
    except SoftTimeLimitExceeded:  # the task's, and not OpenTelemetry's
        raise
    except Exception as error:  # noqa: BLE001  (an exporter or a sampler of the app may raise any)
        kind = type(error).__name__
        if kind not in _told:
            _told.add(kind)
            harmless_log.error(
                "outbox: OpenTelemetry failed (%s); emails go out without spans", kind
            )


def _api() -> ModuleType | None:
    """Return OpenTelemetry's module, or None where the app has not imported it, or not all of it.

    Another thread may be importing it, as redis-py does at its first command if it is installed. A
    module that lacks half of its names is no error of OpenTelemetry's.
    """
    module = sys.modules.get("opentelemetry.trace")
    if module is None or getattr(module.__spec__, "_initializing", False):
        return None
    return module


def _links(api: ModuleType, given: Iterable[str | None]) -> Iterator[Any]:
    contexts = filter(None, map(TraceParent.parse, dict.fromkeys(given)))
    for _, context in zip(range(MOST_LINKS), contexts, strict=False):
        flags = api.TraceFlags(context.flags)
        yield api.Link(api.SpanContext(context.trace_id, context.span_id, True, flags))
