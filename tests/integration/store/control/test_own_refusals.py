"""Refused contents are to blame themselves where the log has others taken at once behind them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert

from outbox.domain.delivery.refusal_fingerprint import fingerprint
from outbox.domain.delivery.transaction import Phase, Reply, Verdict
from outbox.store.control.blame.own_refusals import AT_ONCE, LAST_TAKEN, SHOWN, are_own
from tests.support.shop.shop import Shop

pytestmark = pytest.mark.each_database

SERVER = "mx.example:25"
SPAM = Reply(code=550, enhanced="5.7.1", text="looks like spam")
OTHER = Reply(code=550, enhanced="5.4.6", text="We do not like what you do of late")
BLOCKED = Reply(code=554, enhanced="5.7.1", text="Client host [192.0.2.1] blocked using zen")
FINE = Reply(code=250)
REFUSAL = fingerprint(Phase.DOT, SPAM) or ""
S, F, X, H = (
    (Verdict.SENT, FINE),
    (Verdict.FAIL, SPAM),
    (Verdict.FAIL, OTHER),
    (Verdict.HALT, SPAM),
)
TURNS = [F, S] * 3
STEP = 0.1


def log(
    shop: Shop,
    steps: Sequence[tuple[Verdict, Reply]],
    *,
    step: float = STEP,
    ago: float = 1.0,
    server: str = SERVER,
    phase: Phase = Phase.DOT,
) -> None:
    """Log these attempts, one each `step` seconds; the last one so many seconds ago."""
    last = datetime.now(UTC) - timedelta(seconds=ago)
    rows = [
        {
            "email_id": number,
            "started_at": last - timedelta(seconds=step * (len(steps) - number)),
            "finished_at": last - timedelta(seconds=step * (len(steps) - number)),
            "verdict": verdict,
            "phase": phase,
            "code": reply.code,
            "enhanced": reply.enhanced,
            "reply": reply.text,
            "worker": "host:1",
            "server": server,
        }
        for number, (verdict, reply) in enumerate(steps, 1)
    ]
    with shop.engine.begin() as connection:
        connection.execute(insert(shop.tables.attempt), rows)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (TURNS, True),
        ([*TURNS, F, F, F], True),
        ([F, F, F, *TURNS], True),
        ([F, S, F, S], False),
        ([F, F, F, S, S, S], False),
        ([X, S, X, S, X, S], False),
        ([H, S, H, S, H, S], False),
        ([F, X, S, F, X, S, F, S], True),
    ],
    ids=["turns", "more", "before", "two", "one", "others", "taken back", "others between"],
)
def test_three_that_were_taken_behind_a_refusal_show_it(
    steps: Sequence[tuple[Verdict, Reply]], expected: bool, shop: Shop
) -> None:
    log(shop, steps)
    assert are_own(shop.database, SERVER, REFUSAL) is expected


def test_where_the_words_differ_those_behind_other_words_show_it_too(shop: Shop) -> None:
    log(shop, [X, S] * 3)
    assert not are_own(shop.database, SERVER, REFUSAL)
    assert are_own(shop.database, SERVER, REFUSAL, in_any_words=True)


def test_a_quota_that_frees_a_place_now_and_then_does_not(shop: Shop) -> None:
    log(shop, [F, S] * 10, step=AT_ONCE.total_seconds() + 1.0)
    assert not are_own(shop.database, SERVER, REFUSAL)


def test_nor_does_a_server_that_takes_none_any_more(shop: Shop) -> None:
    log(shop, TURNS, ago=LAST_TAKEN + 5.0)
    assert not are_own(shop.database, SERVER, REFUSAL)
    log(shop, [S])
    assert are_own(shop.database, SERVER, REFUSAL)


def test_nor_what_was_long_ago_or_on_another_server_or_in_reply_to_mail(shop: Shop) -> None:
    log(shop, TURNS, ago=SHOWN + 5.0)
    log(shop, TURNS, server="other.example:25")
    log(shop, [S])
    assert not are_own(shop.database, SERVER, REFUSAL)
    log(shop, TURNS, phase=Phase.MAIL)
    assert not are_own(shop.database, SERVER, fingerprint(Phase.MAIL, SPAM) or "")


@pytest.mark.parametrize("phase", [Phase.RCPT, Phase.DATA])
@pytest.mark.parametrize(("reply", "expected"), [(SPAM, True), (BLOCKED, False)])
def test_of_recipients_only_words_that_are_not_about_the_client_are_their_own(
    phase: Phase, reply: Reply, expected: bool, shop: Shop
) -> None:
    log(shop, [(Verdict.FAIL, reply), S] * 3, phase=phase)
    assert are_own(shop.database, SERVER, fingerprint(phase, reply) or "") is expected


def test_those_that_were_all_refused_before_tell_nothing_new_of_the_server(shop: Shop) -> None:
    log(shop, TURNS, ago=LAST_TAKEN + 5.0)
    assert not are_own(shop.database, SERVER, REFUSAL)
    assert are_own(shop.database, SERVER, REFUSAL, any_fresh=False)


def test_what_the_batch_has_seen_itself_counts(shop: Shop) -> None:
    log(shop, [F, S], ago=LAST_TAKEN + 5.0)
    assert not are_own(shop.database, SERVER, REFUSAL, seen=1)
    assert are_own(shop.database, SERVER, REFUSAL, seen=2)
