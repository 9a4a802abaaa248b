"""`app.extensions` keeps the mail entry the outbox's, however another one is put there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flask_mail
import pytest
from flask import current_app

from tests.support.servers.smtp.catcher import Catcher
from tests.support.shop.shell import runner
from tests.support.shop.shop import Shop, Shops

pytestmark = pytest.mark.databases("sqlite")


@pytest.fixture
def shop(shops: Shops, catcher: Catcher) -> Shop:
    return shops.open_flask(MAIL_PORT=catcher.port, MAIL_DEFAULT_SENDER="shop@shop.example")[0]


def test_extensions_that_were_replaced_are_found_by_check(shop: Shop) -> None:
    text = "app.extensions was replaced"
    assert text not in shop.app.test_cli_runner().invoke(args=["outbox", "check"]).output
    shop.app.extensions = dict(shop.app.extensions)
    assert text in runner(shop)("check", code=1).output


Put = Callable[[dict[str, Any], flask_mail._Mail], object]
PUTS: dict[str, Put] = {
    "an item": lambda found, mail: found.__setitem__("mail", mail),
    "update": lambda found, mail: found.update(mail=mail),
    "an update by pairs": lambda found, mail: found.update([("mail", mail)]),
    "a union": lambda found, mail: found.__ior__({"mail": mail}),
    "a default": lambda found, mail: (found.pop("mail"), found.setdefault("mail", mail)),
}


@pytest.mark.parametrize("way", PUTS)
def test_however_it_is_put_there_it_is_the_outbox_s(shop: Shop, catcher: Catcher, way: str) -> None:
    found, state = shop.app.extensions, flask_mail.Mail().init_mail(shop.app.config)
    PUTS[way](found, state)
    assert found is shop.app.extensions
    assert found["mail"] is state
    with shop.app.app_context():
        current_app.extensions["mail"].send_message("Order 1", recipients=["ada@x.example"])
    assert (shop.statuses(), catcher.sessions) == (["pending"], 0)


def test_the_other_extensions_stay_as_they_are(shop: Shop) -> None:
    found = shop.app.extensions
    assert found["outbox"].runtime is shop.runtime
    assert found.setdefault("celery", "ours") == found.setdefault("celery", "theirs") == "ours"
    found |= {"mailman": "no Flask-Mailman"}
    assert found["mailman"] == "no Flask-Mailman"
