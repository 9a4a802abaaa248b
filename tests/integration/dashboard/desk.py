"""A dashboard and its visitor, who fills in the forms of its pages."""

from __future__ import annotations

import re
from email.message import EmailMessage, Message
from html import unescape
from typing import Any

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from outbox.dashboard import Dashboard, Role
from tests.support.shop.shop import Shop, Shops, message

PIXEL = b"\x89PNG"
HOSTILE = "<script>alert('owned')</script>"
HTML = f'<h1>Thank you</h1><img src="https://tracker.example/1.gif"><img src="cid:logo">{HOSTILE}'


class Desk:
    """A shop's dashboard, as one person sees it in one browser."""

    def __init__(self, shops: Shops, **config: Any) -> None:
        self.shop: Shop = shops.open(SECRET_KEY="secret", **config)
        self.role: Role | None = Role.ACT
        self.who = "ada"
        Dashboard(access=self._access).init_app(self.shop.app)
        self.client: FlaskClient = self.shop.app.test_client()

    def _access(self) -> tuple[Role, str] | None:
        return None if self.role is None else (self.role, self.who)

    def get(self, path: str, code: int = 200, **arguments: Any) -> TestResponse:
        """Return a page of the dashboard."""
        page = self.client.get(f"/outbox{path}", query_string=arguments or None)
        assert page.status_code == code, page.text
        return page

    def token(self, path: str) -> str:
        """Return the token of the forms of a page."""
        found = re.search(r'name="csrf_token" value="([^"]+)"', self.get(path).text)
        assert found, "the page has no form that changes anything"
        return unescape(found[1])

    def post(self, path: str, page: str, status: int = 303, **fields: Any) -> TestResponse:
        """Send a form that stands on a page."""
        done = self.client.post(f"/outbox{path}", data=fields | {"csrf_token": self.token(page)})
        assert done.status_code == status, done.text
        return done

    def followed(self, path: str, page: str, **fields: Any) -> str:
        """Send a form, and return the text of the page to which it leads."""
        return self.client.get(self.post(path, page, **fields).headers["Location"]).text

    def enqueue(self, mail: Message[Any, Any], **options: Any) -> int:
        """Enqueue a message and commit; return its id."""
        with self.shop.session() as session:
            email = self.shop.outbox.enqueue(mail, session=session, **options)
            session.commit()
        return email.id


def whole() -> EmailMessage:
    """Return a message with a text, an HTML part, an image within it, and an attached message."""
    mail = message(subject=f"Order 1 {HOSTILE}", text="The secret body & more")
    mail.add_alternative(HTML, subtype="html")
    mail.add_attachment(PIXEL, "image", "png", filename=f"{HOSTILE}.png", cid="<logo>")
    mail.add_attachment(message(subject="Attached", text="Inner"), filename="inner.eml")
    return mail
