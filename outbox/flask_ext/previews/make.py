"""Calls the function of a preview and renders its message, by the code that enqueues."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flask import current_app

from ..app.render_message import Renderer
from ..app.state import State, previewing
from ..messages.own_envelope import own_envelope
from .registry import Preview
from .shown import ShownEmail


def make(preview: Preview, state: State) -> ShownEmail:
    """Return the email. It is not enqueued, and what the function wrote is taken back.

    Raises what the function raises, and InvalidMessage for a message that could not be enqueued.
    """
    settings = state.runtime.settings
    options = preview.options
    if options.envelope_from is None and settings.envelope_from:
        options = options._replace(envelope_from=settings.envelope_from)
    renderer = Renderer(settings=settings, options=options, added_headers=preview.added_headers)
    with _nothing_kept(state):
        message: Any = current_app.ensure_sync(preview.function)()
        if preview.to is None:
            rendered = renderer.render(message, own_envelope(message))
        else:
            [rendered] = renderer.render_shared(message, preview.fields).write([preview.to])
    sender = rendered.sender if options.envelope_from is None else options.envelope_from
    return ShownEmail(
        octets=rendered.headers + rendered.content,
        envelope_from=sender or "<>",
        recipients=rendered.recipients,
        is_bulk=preview.to is not None,
    )


@contextmanager
def _nothing_kept(state: State) -> Iterator[None]:
    """Refuse each enqueue, and roll the current session back."""
    before = previewing.set(True)
    try:
        yield
    finally:
        previewing.reset(before)
        if state.source is not None and (session := state.session()).in_transaction():
            session.rollback()
