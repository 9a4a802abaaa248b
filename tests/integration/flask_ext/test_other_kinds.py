"""An argument of another kind is refused by name, and leaves the transaction usable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flask_mail
import pytest
from sqlalchemy.orm import Session

from outbox import InvalidMessage
from tests.support.shop.shop import Shop, message

pytestmark = pytest.mark.one_database("postgresql")

PAIRS = "rows: must be pairs of an address and a reason"
ONE_OF = "id: give exactly one of id, key and tag"


def flask(**options: Any) -> flask_mail.Message:
    given = {name: options.pop(name) for name in ("extra_headers", "alts") if name in options}
    values: dict[str, Any] = {
        "recipients": ["ada@x.example"],
        "sender": "shop@shop.example",
        "body": "Hi.",
    }
    mail = flask_mail.Message("Hello", **values | options)
    for name, value in given.items():
        setattr(mail, name, value)
    return mail


@pytest.mark.parametrize(
    ("act", "told"),
    [
        (
            lambda outbox, session: outbox.enqueue_many(
                flask(recipients=[]), ["ada@x.example"], key="news-42", session=session
            ),
            "key: must be a function: each email has a key of its own",
        ),
        (
            lambda outbox, session: outbox.enqueue_many([flask()], key="news-42", session=session),
            "key: must be a function: each email has a key of its own",
        ),
        (
            lambda outbox, _: outbox.suppress_many(["ada@x.example"]),
            PAIRS,
        ),
        (lambda outbox, _: outbox.suppress_many(5), PAIRS),
        (lambda outbox, _: outbox.suppress_many(None), PAIRS),
        (lambda outbox, session: outbox.cancel(session=session), ONE_OF),
        (lambda outbox, session: outbox.cancel(id=1, tag="t", session=session), ONE_OF),
        (
            lambda outbox, session: outbox.enqueue(flask(extra_headers=5), session=session),
            "extra_headers: must be a dictionary",
        ),
        (
            lambda outbox, session: outbox.enqueue_many(
                flask(recipients=[], alts=None), ["ada@x.example"], session=session
            ),
            "alts: must be a dictionary",
        ),
        (
            lambda outbox, session: outbox.enqueue(flask(alts="x"), session=session),
            "alts: must be a dictionary",
        ),
        (
            lambda outbox, session: outbox.enqueue(
                flask(extra_headers=5), auto_submitted=True, session=session
            ),
            "extra_headers: must be a dictionary",
        ),
        (
            lambda outbox, _: outbox.suppress("Ada <ada@x.example>"),
            "address: give the address alone, without a name or angle brackets",
        ),
        (
            lambda outbox, _: outbox.send_again(1, by="ada", seen="0"),
            "seen: must be the id of an entry of the audit, or 0",
        ),
    ],
)
def test_an_argument_of_another_kind_is_named(
    shop: Shop, act: Callable[[Any, Session], object], told: str
) -> None:
    shop.outbox.send_again(shop.enqueue().id, by="ada")
    with shop.session() as session:
        with pytest.raises(InvalidMessage) as refused:
            act(shop.outbox, session)
        assert str(refused.value) == told
        shop.outbox.enqueue(message(), session=session)
        session.commit()
    assert shop.count(shop.tables.email) == 3
