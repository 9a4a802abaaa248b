"""`flask outbox …` as a test runs it, and an email that waits for a person."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from click.testing import Result

from outbox import Status
from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.transaction import Reply, Verdict
from tests.support.shop.shop import Shop, entry

Run = Callable[..., Result]


def runner(shop: Shop) -> Run:
    """Return what runs `flask outbox` with some words, and asserts its exit code."""

    def run(*words: object, code: int = 0) -> Result:
        result = shop.app.test_cli_runner().invoke(args=["outbox", *map(str, words)])
        assert result.exit_code == code, result.output
        assert result.exception is None or isinstance(result.exception, SystemExit), (
            result.exception
        )
        return result

    return run


def parsed(result: Result) -> Any:
    """Return the JSON that a command printed."""
    return json.loads(result.stdout)


def stuck(shop: Shop, status: Status, **options: Any) -> int:
    """Return an email that ended so, and that a person may correct."""
    email = shop.enqueue(**options)
    end_so(shop, email.id, status)
    return email.id


def end_so(shop: Shop, email_id: int, status: Status) -> None:
    """Send an email that is due alone: it ends so."""
    made = shop.sending(email_id)
    end = Outcome(
        status=status,
        reply=Reply(code=550, text="no \u202e such"),
        attempts_added=1,
        unknown_total=int(status is Status.UNKNOWN),
    )
    shop.record(made.token, [entry(email_id, end, Verdict.FAIL)])
