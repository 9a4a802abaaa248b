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


def test_a_search_finds_words_in_whatever_form_a_header_has_them(
    app: Flask, tmp_path: Path
) -> None:
    maildir = Maildir(tmp_path)
    plain = maildir.add(
        b"Delivered-To: ada@example.com\r\nMessage-ID: <one@x>\r\nSubject: Your\r\n order\r\n\r\nhi"
    )
    encoded = maildir.add(
        b"Delivered-To: b@example.com\r\nSubject: =?utf-8?q?B=C3=BCcher?=\r\n\r\nhi"
    )
    raw = maildir.add("Delivered-To: jö@example.com\r\nSubject: Tee\r\n\r\norder".encode())
    for query, found in (
        ("ADA@example", {plain}),
        ("your order", {plain}),
        ("<one@x>", {plain}),
        ("bücher", {encoded}),
        ("jö@example.com", {raw}),
        ("example.com", {plain, encoded, raw}),
        ("ada bücher", set()),
        ("hi", set()),  # bodies are not searched
    ):
        page = app.test_client().get("/inbox", query_string={"q": query}).text
        assert {name for name in (plain, encoded, raw) if name in page} == found, query


def test_a_message_id_leads_to_its_email_or_to_a_search_that_finds_nothing_yet(
    app: Flask, tmp_path: Path
) -> None:
    client, maildir = app.test_client(), Maildir(tmp_path)
    sought = {"message_id": "<a&b@x>"}
    waiting = client.get("/inbox/find", query_string=sought, follow_redirects=True)
    assert (waiting.status_code, waiting.request.path) == (200, "/inbox")
    assert "“&lt;a&amp;b@x&gt;” has arrived" in waiting.text
    maildir.add(b"Message-ID: <other@x>\r\nReferences: <a&b@x>\r\n\r\nnot this one")
    name = maildir.add(b"Message-ID: <a&b@x>\r\n\r\nhi")
    assert client.get("/inbox/find", query_string=sought).location == f"/inbox/{name}"
    assert client.get("/inbox/find").location == "/inbox"


def test_an_attachment_is_a_file_to_keep_under_a_harmless_name(app: Flask, tmp_path: Path) -> None:
    head = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\ntext\r\n--b\r\n"
    kind = b'Content-Type: text/html\r\nContent-Disposition: attachment; filename="..\\x\\<b>.html"'
    name = Maildir(tmp_path).add(head + kind + b"\r\n\r\n<script>alert()</script>\r\n--b--\r\n")
    client = app.test_client()
    assert "&lt;b&gt;.html" in client.get(f"/inbox/{name}").text
    file = client.get(f"/inbox/{name}/attachments/0")
    assert file.data.strip() == b"<script>alert()</script>"
    assert file.mimetype == "application/octet-stream"
    assert file.headers["Content-Disposition"].startswith("attachment;")
    assert ".." not in file.headers["Content-Disposition"]
    assert file.headers["Content-Security-Policy"].startswith("sandbox;")
    assert client.get(f"/inbox/{name}/attachments/1").status_code == 404
