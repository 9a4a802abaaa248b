"""A person is told which server refuses contents, how many emails it is about, and what to do."""

from __future__ import annotations

import re
import shlex

import pytest

from outbox.domain.delivery.breaker_timing import Cause
from outbox.domain.delivery.outcome import Outcome
from outbox.domain.delivery.refusal_fingerprint import fingerprint, reason
from outbox.domain.delivery.status import Status
from outbox.domain.delivery.transaction import Phase, Reply, Verdict
from outbox.store.control import circuit_breaker
from outbox.store.queries.waiting import LATELY
from tests.support.shop.shell import parsed, runner
from tests.support.shop.shop import Shop, entry

pytestmark = pytest.mark.each_database

SPAM = Reply(code=550, enhanced="5.7.1", text="rejected: somebody@private.example")
SECRETS = ("private", "somebody", "customers", "Hello")
NEEDED = 10


def refuse(shop: Shop, number: int, *, phase: Phase = Phase.DOT, server: str = "") -> None:
    """Have so many emails, each to a domain of its own, fail by this reply."""
    name = server or shop.runtime.servers[0].name
    for at in range(number):
        email = shop.enqueue(f"somebody@d{at}.example")
        made = shop.sending(email.id)
        end = Outcome(status=Status.FAILED, reply=SPAM, attempts_added=1)
        shop.record(made.token, [entry(email.id, end, Verdict.FAIL, phase=phase, server=name)])


def halt(shop: Shop) -> str:
    """Have the server refuse every content alike; return its name."""
    name, refusal = shop.runtime.servers[0].name, fingerprint(Phase.DOT, SPAM) or ""
    circuit_breaker.trip(
        shop.database, name, cause=Cause.EMAILS, reason=reason(refusal), alert=True, refusal=refusal
    )
    return name


@pytest.mark.long
def test_many_that_failed_for_their_contents_are_told_everywhere(shop: Shop) -> None:
    refuse(shop, NEEDED + 2)
    name = shop.runtime.servers[0].name
    line = runner(shop)("problems").output.splitlines()[0]
    assert f"server {name} refuses emails for their contents (550 5.7.1)" in line
    assert "12 failed in the last 15 minutes" in line
    assert f"--server {name} --phase dot --reply '550 5.7.1'" in line
    assert not any(word in line for word in SECRETS)
    assert line in runner(shop)("health").output
    found = parsed(runner(shop)("problems", "--json"))["contents"]
    told = {"server": name, "code": 550, "enhanced": "5.7.1", "failed": 12, "waiting": 0}
    assert found == [{**told, "is_halted": False}]
    checked = shop.app.test_cli_runner().invoke(args=["outbox", "check", "--json"])
    assert line in {one["text"] for one in parsed(checked) if one["code"] == "refused-contents"}


@pytest.mark.long
def test_the_commands_that_are_told_find_and_retry_these_emails(shop: Shop) -> None:
    refuse(shop, NEEDED)
    refuse(shop, 1, phase=Phase.RCPT)
    line = runner(shop)("problems").output.splitlines()[0]
    look, again = re.findall(r"flask outbox ((?:list|job start retry) [^;)]*)", line)
    assert len(runner(shop)(*shlex.split(look)).output.splitlines()) == NEEDED
    assert again.startswith("job start retry ")
    assert "then retry them: " in line
    assert f"{NEEDED} emails" in runner(shop)(*shlex.split(again), "--dry-run").output


@pytest.mark.long
def test_few_or_old_ones_or_refusals_before_the_content_are_not(shop: Shop) -> None:
    refuse(shop, NEEDED - 1)
    refuse(shop, NEEDED + 1, phase=Phase.RCPT)
    refuse(shop, NEEDED - 1, server="other.example:25")
    assert shop.outbox.problems().contents == ()
    refuse(shop, 1)
    assert [one.failed for one in shop.outbox.problems().contents] == [NEEDED]
    shop.later(LATELY + 1)
    assert shop.outbox.problems().contents == ()


def test_while_it_is_halted_those_that_wait_for_it_are_counted(shop: Shop) -> None:
    refuse(shop, 2)
    for at in range(3):
        shop.enqueue(f"somebody@w{at}.example")
    name = halt(shop)
    output = runner(shop)("problems").output
    assert "nothing needs a person" not in output
    line = output.splitlines()[0]
    assert f"server {name} refuses emails for their contents (550 5.7.1)" in line
    assert "2 failed in the last 15 minutes, 3 wait" in line
    assert not any(word in line for word in SECRETS)
    assert line in runner(shop)("health", code=1).output


def test_a_halted_server_is_told_of_before_any_email_has_failed(shop: Shop) -> None:
    shop.enqueue()
    halt(shop)
    output = runner(shop)("problems").output
    assert "none failed in the last 15 minutes, 1 waits" in output
    assert "nothing needs a person" not in output
