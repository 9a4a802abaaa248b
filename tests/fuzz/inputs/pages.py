"""No query, form, path or email makes a page of the shop fail, and none is shown unescaped.

The shop is the web app of this repository. Its dashboard's visitor may act.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from flask import Flask
from hypothesis import strategies as st

from outbox.dashboard.messages.search_form import LONGEST
from tests.fuzz.campaign import Property
from tests.fuzz.inputs.drafts import ADDRESSES, BODIES, FILE_NAMES, PARAMETERS, TEXTS
from tests.fuzz.inputs.texts import ANY, HOSTILE, around
from webapp.app import create_app
from webapp.extensions import db
from webapp.maildir import Maildir

MARK = "<script>mark()</script>"
ID = "6f1c2b1e-3f7e-4a57-9d0a-1d9a3c5e7b11"

_MARKED = st.sampled_from([MARK, f'"{MARK}', f"{MARK} Ada", f"</title>{MARK}"])
_TEXT = st.one_of(
    _MARKED, _MARKED, TEXTS, HOSTILE, ANY, st.just(MARK), st.just(f'"{MARK}'), st.just(f"x{MARK}\n")
)
_NUMBER = around("1", "99", "0", "-1", "1e5", "٣", "9" * 5000, "0x10", " 7 ", "1.0", "+1")
_ID = around(ID, ID.upper(), "{" + ID + "}", "urn:uuid:" + ID, "0" * 32)

FORMS: dict[str, dict[str, st.SearchStrategy[str]]] = {
    "/orders": {
        "checkout": _ID, "product": around("notebook"), "quantity": _NUMBER, "name": _TEXT,
        "email": ADDRESSES | _TEXT, "card": around("works", "declined"),
    },
    "/password-reset": {"email": ADDRESSES | _TEXT},
    "/newsletter": {"draft": _ID, "subject": _TEXT, "text": _TEXT, "readers": around("1", "3")},
}  # fmt: skip
_GOOD = {
    "checkout": ID, "product": "notebook", "quantity": "1", "name": "Ada", "card": "works",
    "email": "ada@x.example", "draft": ID, "subject": "s", "text": "t",
    "readers": "2",
}  # fmt: skip
PATHS = around(
    "/",
    "/orders",
    "/orders/1",
    "/orders/1/email",
    "/orders/1/invoice",
    "/newsletter",
    "/newsletter/1",
    "/password-reset",
    "/newsletter/1/progress",
    "/password-reset/sent",
    "/password-reset/token",
    "/inbox",
    "/inbox/find",
    "/healthz",
    "/metrics",
    "/inbox/00000000000000000001.1.00000001",
    "/inbox/00000000000000000001.1.00000001/html",
    "/inbox/00000000000000000001.1.00000001/attachments/0",
    "/static/shop.css",
    "/static/../app.py",
    "/inbox/../../etc/passwd",
    "/outbox/",
    "/orders/" + "9" * 50,
)
_QUERY = st.dictionaries(
    around("page", "view", "q", "message_id", "x"),
    _NUMBER | _TEXT | around("html", "text", "source"),
)

_BELOW_OUTBOX = around(
    *("", "now", "figures", "messages", "messages/1", "messages/1/message.eml"),
    *("messages/1/files/0", "messages/1/retry", "problems", "newsletters", "newsletters/tag"),
    *("jobs", "jobs/1", "jobs/new", "suppressed", "suppressed.csv", "workers", "pauses", "held"),
    *("audit", "nowhere"),
).map("/outbox/{}".format)
_SEARCH = st.dictionaries(
    around(*LONGEST, "action", "before", "last", "view", "address", "copy_of", "released"),
    _NUMBER | _TEXT | ADDRESSES | around(
        *("failed", "unknown", "cancelled", "retry", "resolve as sent", "week", "source"),
        *("2026-11-26", "0001-01-01", "9999-12-31", "550 5.1.1", "(none)", "rcpt", "7.1", "<a@b>"),
    ),
    max_size=4,
)  # fmt: skip


@st.composite
def _forms(draw: st.DrawFn) -> tuple[str, str, dict[str, str]]:
    path = draw(st.sampled_from(sorted(FORMS)))
    fields = FORMS[path]
    chosen = draw(st.lists(st.sampled_from(sorted(fields)), min_size=1, max_size=2, unique=True))
    fresh = dict.fromkeys(("checkout", "draft"), str(draw(st.uuids())))  # or it acted once
    form = {name: (_GOOD | fresh)[name] for name in fields}
    form |= {name: draw(fields[name]) for name in chosen}
    if draw(st.integers(0, 9)) == 0:
        form.pop(draw(st.sampled_from(sorted(fields))))
    return "POST", path, form


_METHODS = st.sampled_from(["GET"] * 6 + ["HEAD", "POST", "PUT", "OPTIONS"])
_HEADERS = st.sampled_from(
    [
        "From",
        "To",
        "Subject",
        "Delivered-To",
        "Message-ID",
        "Content-Type",
        "Content-Transfer-Encoding",
        "Content-Disposition",
        "MIME-Version",
    ]
)
_VALUES = st.one_of(
    _TEXT, ADDRESSES, PARAMETERS, FILE_NAMES,
    around("text/html", "text/plain; charset=klingon", "multipart/mixed; boundary=b", "base64",
           "text/html; charset=utf-7", "message/rfc822", "multipart/alternative", "uuencode"),
)  # fmt: skip


@st.composite
def _emails(draw: st.DrawFn) -> bytes:
    """Octets that a server took: nobody has promised that they are an email."""
    # CPython takes minutes to read a longer one. The outbox writes none such.
    lines = [f"{draw(_HEADERS)}: {draw(_VALUES)[:500]}" for _ in range(draw(st.integers(0, 5)))]
    body = str(draw(BODIES)) + draw(st.sampled_from(["", MARK, f"--b\r\n\r\n{MARK}\r\n--b--"]))
    text = "\r\n".join(lines) + draw(st.sampled_from(["\r\n\r\n", "\n\n", ""])) + body
    return text.encode("utf-8", "surrogatepass") + draw(st.binary(max_size=10))


@contextmanager
def properties(url: str) -> Iterator[list[Property]]:
    """Open the shop on this database, with an inbox."""
    with tempfile.TemporaryDirectory(prefix="outbox-inbox-") as inbox:
        app = create_app(
            {
                "SECRET_KEY": "for this test only",
                "SQLALCHEMY_DATABASE_URI": url,
                "MAIL_DEFAULT_SENDER": ("Shop", "shop@shop.example"),
                "PUBLIC_URL": "http://shop.example",
                "WTF_CSRF_ENABLED": False,  # its tokens are not ours to test, the views are
                "RATELIMIT_ENABLED": False,
                "PROPAGATE_EXCEPTIONS": True,
                "MAX_CONTENT_LENGTH": 256 * 1024,
                "DEMO_INBOX": inbox,
                "OUTBOX_NUDGE": False,
            }
        )
        with app.app_context():
            app.test_cli_runner().invoke(args=["init-db"])
        shop = _Shop(app, Maildir(Path(inbox)))
        try:
            yield [
                Property(source="web forms", inputs=_forms(), holds=shop.answers),
                Property(
                    source="web paths and queries",
                    inputs=st.tuples(_METHODS, PATHS, _QUERY),
                    holds=shop.answers,
                ),
                Property(
                    source="the dashboard's queries",
                    inputs=st.tuples(_METHODS, _BELOW_OUTBOX, _SEARCH),
                    holds=shop.answers,
                ),
                Property(source="emails shown", inputs=_emails(), holds=shop.shows),
            ]
        finally:
            with app.app_context():
                db.engine.dispose()


class _Shop:
    def __init__(self, app: Flask, maildir: Maildir) -> None:
        self._client = app.test_client()
        self._maildir = maildir

    def answers(self, call: tuple[str, str, dict[str, str]]) -> None:
        method, path, values = call
        longest = None if method == "POST" else 2000  # a server takes no longer a line
        plain = {_octets(n)[:longest]: _octets(v)[:longest] for n, v in values.items()}
        place: dict[str, Any] = {"data" if method == "POST" else "query_string": plain}
        response = self._client.open(_path(path), method=method, **place)
        self._sound(response)
        if response.status_code == 303:
            self._sound(self._client.get(response.headers["Location"]))
            self._sound(self._client.get("/orders"))
            self._sound(self._client.get("/newsletter"))

    def shows(self, raw: bytes) -> None:
        """The list, the email in each view, and its HTML in a frame that may do nothing."""
        name = self._maildir.add(raw)
        try:
            for path in ("", f"/{name}", f"/{name}?view=text", f"/{name}?view=source", "?q=mark"):
                self._sound(self._client.get(f"/inbox{path}"))
            for part in ("html", "attachments/0"):
                framed = self._client.get(f"/inbox/{name}/{part}")
                assert framed.status_code in (200, 404)
                if framed.status_code == 200:
                    assert framed.headers["Content-Security-Policy"].startswith("sandbox;")
        finally:
            (self._maildir.path / "new" / name).unlink()

    @staticmethod
    def _sound(response: Any) -> None:
        with closing(response):  # a file under /static that nobody has read, as after HEAD
            assert response.status_code < 500
            assert "default-src 'none'" in response.headers["Content-Security-Policy"]
            if response.mimetype == "text/html":
                assert MARK not in response.get_data(as_text=True), "it stands there unescaped"


def _octets(text: str) -> str:
    """As a browser would send it: a lone surrogate cannot be."""
    return text.encode("utf-8", "replace").decode()


def _path(text: str) -> str:
    return "/" + quote(_octets(text).lstrip("/"), safe="/%")
