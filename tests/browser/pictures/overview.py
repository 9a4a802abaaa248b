"""The picture of the dashboard's overview: a shop on an ordinary day, whose figures are made up."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait
from werkzeug.serving import make_server

from outbox.store.control import beat
from tests.browser.conftest import chromium
from tests.browser.pictures.picture import Picture, shot
from tests.browser.serving import serving
from tests.integration.dashboard import scene
from tests.integration.dashboard.desk import Desk
from tests.support.shop.shop import Shops

SIZE = (1380, 1060)


def take(folder: Path) -> bytes:
    """Show the overview to a browser, and take it."""
    shops = Shops(url=f"sqlite:///{folder}/shop.db")
    desk = Desk(shops, MAIL_SERVER="smtp.example", MAIL_PORT=587, MAIL_USE_TLS=True)
    server = make_server("127.0.0.1", 0, desk.shop.app, threaded=True)
    _fill(desk)
    with closing(shops), serving(server):
        browser = chromium(folder / "chromium", scripts=True)
        try:
            browser.get(f"http://127.0.0.1:{server.port}/outbox/")
            shot(browser, *SIZE)  # the charts are drawn anew in this size
            browser.refresh()
            WebDriverWait(browser, 20).until(
                lambda b: len(b.find_elements(By.CSS_SELECTOR, ".chart canvas")) == 3
            )
            return shot(browser, *SIZE)
        finally:
            browser.quit()


def _fill(desk: Desk) -> None:
    shop = desk.shop
    scene.figures(shop, server="smtp.example:587")
    scene.worker(shop, "celery@mail-1")
    scene.worker(shop, "celery@mail-2", tasks=0)
    scene.worker(shop, "beat@mail-1", pool="beat", queues="", slots=0, concurrency=0, tasks=0)
    beat.note(shop.database)
    scene.send(shop, "news-42", 240)
    shop.outbox.pause("bulk", by="ada")


PICTURE = Picture(
    name="overview",
    sources=(
        "outbox/dashboard/templates/layout.html",
        "outbox/dashboard/templates/overview",
        "outbox/dashboard/static",
    ),
    take=take,
)
