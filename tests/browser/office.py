"""A dashboard that a browser can reach, and what a person does on its pages."""

from __future__ import annotations

from typing import Any

from flask import Flask, g
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from werkzeug.serving import make_server

from outbox import Status
from outbox.dashboard.access.role import Role, Visitor
from outbox.dashboard.site.so_far import SoFar
from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.transaction import Reply, Verdict
from tests.browser.elsewhere import Elsewhere
from tests.browser.leaving import follow
from tests.integration.dashboard import scene
from tests.integration.dashboard.desk import HOSTILE, Desk, whole
from tests.support.shop.shell import stuck
from tests.support.shop.shop import Shops, entry, message

NEWS = "news-42"
LONG = f"{'long-' * 12}ada@{'sub.' * 12}example.com"


class Office:
    """A dashboard that a browser can reach, with a message of each kind."""

    def __init__(self, shops: Shops) -> None:
        self.desk = Desk(shops)
        self.elsewhere = Elsewhere()
        self.loaded: list[str] = []
        app: Flask = self.desk.shop.app
        app.add_url_rule("/loaded", view_func=self._loaded)
        self.server = make_server("127.0.0.1", 0, app, threaded=True)
        self.origin = f"http://127.0.0.1:{self.server.port}"
        self.unknown = stuck(self.desk.shop, Status.UNKNOWN)
        self.hostile = self._hostile()
        self.waits = self.desk.enqueue(message(LONG, "b@x.example"), tag="order-7")
        self.job = self.desk.shop.outbox.start_job("cancel", recipient=LONG, tag=HOSTILE).id
        self.desk.shop.outbox.suppress(LONG, f"bounced {HOSTILE}")
        scene.figures(self.desk.shop, server=HOSTILE)
        scene.fleet(self.desk.shop)
        scene.halted(self.desk.shop, "127.0.0.1:1")
        scene.send(self.desk.shop, NEWS, 60)
        for status, readers in ((Status.SENT, 20), (Status.FAILED, 4), (Status.UNKNOWN, 2)):
            scene.ended(self.desk.shop, NEWS, status, readers)
        scene.send(self.desk.shop, f"news {HOSTILE}", 3)

    def restore(self) -> None:
        """Hold what waits, as after a restored backup."""
        self.desk.shop.outbox.restored()

    def _stopped(self) -> str:
        """Return what an address says of a newsletter of which three messages were stopped."""
        with self.desk.shop.app.test_request_context():
            g.outbox_visitor = Visitor(role=Role.ACT, who=self.desk.who)
            return SoFar(changed=3).sign(f"stop {NEWS}")

    def _loaded(self) -> str:
        self.loaded.append("loaded")
        return ""

    def _hostile(self) -> int:
        mail = whole()
        mail.replace_header("Subject", f"Order {HOSTILE}<img src=x onerror=alert(1)>")
        elsewhere = self.elsewhere.origin
        page = (
            f'<link rel="preconnect" href="{elsewhere}"><iframe src="{elsewhere}"></iframe>'
            f'<iframe srcdoc="&lt;link rel=preconnect href={elsewhere}&gt;"></iframe>'
            f'<p id="harmless">harmless</p><img src="{self.origin}/loaded" onerror="alert(1)">'
            f'<link rel="stylesheet" href="/loaded"><meta http-equiv="refresh" content="0;/loaded">'
            f'<iframe src="/loaded"></iframe><form action="/loaded"><button>Go</button></form>'
            f'<a href="/loaded">Track</a><a href="/loaded" target="_top">Top</a>{HOSTILE}'
        )
        mail.get_body(("html",)).set_content(page, subtype="html")  # type: ignore[union-attr]
        email_id = self.desk.enqueue(mail, tag=HOSTILE, key=HOSTILE)
        made = self.desk.shop.sending(email_id)
        reply = Reply(code=550, enhanced="5.1.1", text=f"{HOSTILE}<img src=x onerror=alert(1)>")
        end = Outcome(status=Status.FAILED, reply=reply, attempts_added=1)
        self.desk.shop.record(made.token, [entry(email_id, end, Verdict.FAIL, server=HOSTILE)])
        return email_id

    @property
    def paths(self) -> list[str]:
        """The pages, the empty ones and those of errors among them."""
        views = [f"/messages/{self.hostile}?view={view}" for view in ("text", "headers", "source")]
        return [
            "/", "/?last=week", "/workers", "/problems", "/messages",
            "/messages?q=x&since=2026-01-01", "/messages?tag=none", "/messages?status=x",
            *(f"/messages/{one}" for one in (self.unknown, self.hostile, self.waits)), *views,
            "/jobs", f"/jobs/{self.job}", "/jobs/new?action=retry&status=unknown",
            f"/jobs/new?action=cancel&recipient={LONG}", "/jobs/new?action=cancel&tag=none",
            "/newsletters", "/newsletters?before=1", f"/newsletters/tag?tag={NEWS}",
            f"/newsletters/tag?tag={NEWS}&so_far={self._stopped()}", "/newsletters/tag?tag=none",
            "/messages?status=failed&reply=550+5.1.1&domain=customers.example", "/held",
            "/suppressed", "/suppressed?address=none@x.example", "/pauses", "/audit", "/nowhere",
        ]  # fmt: skip


def press(browser: Chrome, text: str) -> None:
    """Press a button with this text, and wait until the page is gone."""
    follow(browser, By.XPATH, f"//button[normalize-space()='{text}']")


def unfold(browser: Chrome, text: str) -> None:
    browser.find_element(By.XPATH, f"//summary[normalize-space()='{text}']").click()


def notice(browser: Chrome) -> str:
    return browser.find_element(By.CLASS_NAME, "notice").text


def complaints(browser: Chrome) -> list[str]:
    """Return the errors that the browser has noted; a page with status 400 or 404 is none."""
    log: Any = browser
    noted = [str(line["message"]) for line in log.get_log("browser")]
    return [line for line in noted if "the server responded with a status of 40" not in line]
