"""A plugin for pytest: each Flask app that a test makes has an outbox.

Another project's suite is run with it, in a process of its own. `tests` is that project's package
there, so this file imports nothing of ours but `outbox`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask, current_app
from sqlalchemy import MetaData, create_engine, func, select
from sqlalchemy.orm import scoped_session, sessionmaker
from sqlalchemy.pool import StaticPool

from outbox import Outbox
from outbox.mailman import EmailBackend


class Enqueueing(EmailBackend):
    """The outbox's backend; like `locmem` it also keeps what it took, where the tests look."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.mailman.outbox = getattr(self.mailman, "outbox", [])

    def send_messages(self, email_messages: Any) -> int:
        messages, before = list(email_messages), _rows()
        taken: int = super().send_messages(messages)
        assert _rows() - before == taken == len(messages)
        self.mailman.outbox.extend(messages)
        return taken


def _rows() -> int:
    """Return how many emails are committed."""
    runtime = current_app.extensions["outbox"].runtime
    with runtime.database.engine.connect() as connection:
        statement = select(func.count()).select_from(runtime.tables.email)
        return int(connection.execute(statement).scalar_one())


CONFIGS: dict[str, dict[str, Any]] = {
    "Flask-Mailman's default": {},
    "suppressed": {"MAIL_BACKEND": "outbox.mailman"},
    "enqueued": {"MAIL_BACKEND": Enqueueing, "MAIL_SUPPRESS_SEND": False},
}
"""How the apps send. The suite's apps are `TESTING`, so the first is Flask-Mailman's `locmem`."""

_init = Flask.__init__


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the caller choose how the apps send."""
    parser.addoption("--sending", choices=CONFIGS, required=True)


@pytest.fixture(autouse=True)
def outbox_in_each_app(request: pytest.FixtureRequest) -> Iterator[None]:
    """Add an outbox, with tables in memory, to each app that is made within the test."""
    config = CONFIGS[request.config.getoption("--sending")]
    apps = []

    def init(app: Flask, *given: Any, **options: Any) -> None:
        _init(app, *given, **options)
        app.config.update(config)
        engine, metadata = create_engine("sqlite://", poolclass=StaticPool), MetaData()
        session = scoped_session(sessionmaker(engine))
        Outbox().init_app(app, engine=engine, metadata=metadata, session=session)
        metadata.create_all(engine)
        apps.append((engine, session))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Flask, "__init__", init)
        yield
    assert apps, "the test made no app with an outbox"
    for engine, session in apps:
        session.remove()
        engine.dispose()
