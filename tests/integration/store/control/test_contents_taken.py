"""Which contents a server took, by the log, so that they do not explain why it refuses them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert

from outbox.domain.delivery.blame import Common
from outbox.domain.delivery.refusal_fingerprint import fingerprint
from outbox.domain.delivery.transaction import Phase, Reply, Verdict
from outbox.store.control.blame.comparison import LATELY, contents_taken
from outbox.store.control.blame.other_senders import outsider_taken
from tests.support.shop.shop import Shop, message

pytestmark = pytest.mark.each_database

SERVER = "mx.example:25"
UNUSUAL = Reply(code=550, enhanced="5.4.6", text="We do not like what you do of late")
SPAM = Reply(code=550, enhanced="5.7.1", text="looks like spam")
REFUSAL = fingerprint(Phase.DOT, UNUSUAL) or ""

TAKEN, REFUSED, FREED = "taken", "refused", "refused, and taken back"
OTHER, SPAMMY = "another content taken", "refused for another reason"
REPLIES = {TAKEN: Reply(code=250), OTHER: Reply(code=250), SPAMMY: SPAM}
VERDICTS = {TAKEN: Verdict.SENT, OTHER: Verdict.SENT, FREED: Verdict.HALT}


def log(shop: Shop, email_id: int, step: str, *, server: str = SERVER, ago: float = 1.0) -> None:
    """Log what befell an email on the server so many seconds ago."""
    moment, reply = datetime.now(UTC) - timedelta(seconds=ago), REPLIES.get(step, UNUSUAL)
    row = {
        "email_id": email_id,
        "started_at": moment,
        "finished_at": moment,
        "verdict": VERDICTS.get(step, Verdict.FAIL),
        "phase": "dot",
        "code": reply.code,
        "enhanced": reply.enhanced,
        "reply": reply.text,
        "worker": "host:1",
        "server": server,
    }
    with shop.engine.begin() as connection:
        connection.execute(insert(shop.tables.attempt), row)


def is_taken(shop: Shop, *steps: str, server: str = SERVER, ago: float = 1.0) -> bool:
    """Return whether a newsletter is among those taken, after these steps."""
    news, order = shop.enqueue(), shop.enqueue()
    content = shop.email_row(news.id).content_id
    assert content != shop.email_row(order.id).content_id
    for step in steps:
        log(shop, (order if step is OTHER else news).id, step, server=server, ago=ago)
    found = contents_taken(shop.database, SERVER, REFUSAL, [content, content + 1000])
    assert found <= {content}
    return bool(found)


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((), False),
        ((REFUSED, REFUSED), False),
        ((OTHER, REFUSED), False),
        ((TAKEN,), True),
        ((TAKEN, REFUSED, FREED), True),
        ((TAKEN, OTHER, OTHER, OTHER, REFUSED), True),
        ((REFUSED, OTHER, TAKEN), True),
        ((TAKEN, SPAMMY, OTHER, OTHER, OTHER, REFUSED), True),
        ((TAKEN, REFUSED, OTHER, OTHER, REFUSED), True),
        ((TAKEN, REFUSED, OTHER, OTHER, OTHER), False),
        ((TAKEN, FREED, OTHER, REFUSED, OTHER, OTHER), False),
        ((TAKEN, FREED, OTHER, OTHER, OTHER, REFUSED, TAKEN, OTHER), True),
    ],
)
def test_a_content_that_was_taken_and_no_other_since_does_not_explain_its_refusals(
    steps: tuple[str, ...], expected: bool, shop: Shop
) -> None:
    assert is_taken(shop, *steps) is expected


@pytest.mark.parametrize(
    ("server", "ago"), [("other.example:25", 1.0), (SERVER, LATELY + 60), (SERVER, -LATELY - 60)]
)
def test_another_server_and_another_time_tell_nothing(server: str, ago: float, shop: Shop) -> None:
    assert not is_taken(shop, TAKEN, server=server, ago=ago)


def test_an_outsider_tells_only_of_the_time_since_the_refused_sender_was_taken(shop: Shop) -> None:
    ours = Common(sender="shop@shop.example", domains=frozenset(), size=1)
    other = message()
    del other["From"]
    other["From"] = "orders@shop.example"
    with shop.session() as session:
        theirs = shop.outbox.enqueue(other, session=session)
        session.commit()
    log(shop, theirs.id, TAKEN)
    assert outsider_taken(shop.database, SERVER, ours)
    log(shop, shop.enqueue().id, TAKEN)
    assert not outsider_taken(shop.database, SERVER, ours)
