"""The demo's inbox shows whatever a server took, be it an email or not."""

from __future__ import annotations

from pathlib import Path

import pytest
from flask import Flask

from webapp.app import create_app
from webapp.maildir import Maildir

DEEP = b"(" * 900


@pytest.fixture
def app(tmp_path: Path) -> Flask:
    return create_app(
        {
            "SECRET_KEY": "for this test only",
            "SQLALCHEMY_DATABASE_URI": "sqlite://",
            "DEMO_INBOX": str(tmp_path),
        }
    )


@pytest.mark.parametrize(
    "header", [b"Content-Type: text/plain; x=", b"Content-Type: ", b"From: ", b"Subject: "]
)
@pytest.mark.parametrize("body", [b"the text", b"\xff\x00"])
def test_a_header_that_no_parser_can_read_is_shown_as_it_came(
    app: Flask, tmp_path: Path, header: bytes, body: bytes
) -> None:
    name = Maildir(tmp_path).add(header + DEEP + b"\r\n\r\n" + body)
    with app.test_client() as client:
        assert client.get("/inbox").status_code == 200
        shown = client.get(f"/inbox/{name}?view=source")
        assert shown.status_code == 200
        assert DEEP.decode() in shown.get_data(as_text=True)
        assert client.get(f"/inbox/{name}/html").status_code in (200, 404)
