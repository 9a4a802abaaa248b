"""The shop of this repository on a fresh database, without a broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask

from webapp.app import create_app
from webapp.extensions import db


@pytest.fixture
def app(database_url: str, tmp_path: Path) -> Iterator[Flask]:
    """The shop with its goods."""
    made = create_app(
        {
            "SECRET_KEY": "for this test only",
            "SQLALCHEMY_DATABASE_URI": database_url,
            "MAIL_DEFAULT_SENDER": ("Foolscap", "post@foolscap.example"),
            "MAIL_SUPPRESS_SEND": False,
            "PUBLIC_URL": "http://shop.example",
            "WTF_CSRF_ENABLED": False,
            "DEMO_INBOX": str(tmp_path / "inbox"),
            "FLOWER_URL": "http://127.0.0.1:5555/",
            "OUTBOX_NUDGE": False,
        }
    )
    made.test_cli_runner().invoke(args=["init-db"])
    yield made
    with made.app_context():
        db.engine.dispose()
