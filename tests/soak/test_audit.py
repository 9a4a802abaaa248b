"""Every sentence of the auditor can be found not to hold: one that cannot proves nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.soak.audit import judge
from tests.soak.classes import CLOSED_DOMAIN, HUGE, SHOP, THROTTLED
from tests.soak.facts import Copy, Facts, Mail, Order
from tests.soak.hosts.wire import address

GOOD, NEWS, REFUSED, PAIR, HALTED = "good", "news", "refused", "pair", "halted"
DOMAIN_REFUSED = "a domain refused"
BOUND = 1


def _mail(id_: int, order: str, to: dict[str, str], status: str = "sent", doubts: int = 0) -> Mail:
    return Mail(
        id=id_,
        order=order,
        message_id=f"<{id_}@x>",
        status=status,
        recipients=to,
        doubts=doubts,
        sent=int(status == "sent"),
    )


def _kept() -> Facts:
    """A run in which every promise was kept: one email in doubt got its second copy."""
    facts = Facts()
    for name, emails, recipients, policy in (
        (GOOD, 1, 1, "hold"),
        (NEWS, 2, 1, "resend"),
        (REFUSED, 1, 1, "resend"),
        (PAIR, 1, 2, "resend"),
        (HALTED, 1, 1, "resend"),
    ):
        facts.orders[name] = Order(emails=emails, recipients=recipients, policy=policy)
        facts.told[name] = "committed"
    facts.told["never"] = "rolled back"
    nobody = address(REFUSED, 0, "refused-rcpt")
    partner = address(PAIR, 1)
    halted = address(HALTED, 0, domain=CLOSED_DOMAIN)
    facts.emails = [
        _mail(1, GOOD, {address(GOOD, 0): "sent"}),
        _mail(2, NEWS, {address(NEWS, 0): "sent"}),
        _mail(3, NEWS, {address(NEWS, 1): "sent"}, doubts=1),
        _mail(4, REFUSED, {nobody: "failed"}, "failed"),
        _mail(5, PAIR, {address(PAIR, 0): "sent", partner: "failed"}),
        _mail(6, HALTED, {halted: "failed"}, "failed"),
    ]
    taken = ((1, GOOD, 0), (2, NEWS, 0), (3, NEWS, 1), (3, NEWS, 1), (5, PAIR, 0))
    for id_, order, number in taken:
        facts.copies[address(order, number)].append(Copy(message_id=f"<{id_}@x>", order=order))
    facts.refused[nobody].append("550 5.1.1 no such mailbox")
    facts.refused[partner].append("554 5.6.0 not at all")
    facts.refused[halted].append("421 4.7.0 try again later")
    for copies in (0, 3):
        facts.classes[f"{DOMAIN_REFUSED} at 1.5"].note(copies)
    facts.met["PostgreSQL read-only"] = 7
    return facts


def _replace(facts: Facts, number: int, **changes: object) -> None:
    old = facts.emails[number]
    values = {name: getattr(old, name) for name in Mail.__dataclass_fields__}
    facts.emails[number] = Mail(**{**values, **changes})


def _again(facts: Facts, order: str, number: int) -> None:
    copies = facts.copies[address(order, number)]
    copies.append(copies[0])


def _repeat_though_held(facts: Facts) -> None:
    _again(facts, GOOD, 0)
    _replace(facts, 0, doubts=1)


def _forget(facts: Facts) -> None:
    del facts.orders[GOOD]
    del facts.emails[0]
    del facts.copies[address(GOOD, 0)]


def test_where_every_promise_was_kept_nothing_is_found() -> None:
    verdict = judge(_kept(), BOUND)
    assert verdict.findings == {}
    assert verdict.holds
    assert (verdict.emails, verdict.copies, verdict.repeated) == (6, 5, 1)
    assert (verdict.doubts, verdict.in_doubt, verdict.lost) == (1, 1, 0)


BREAKS: dict[str, tuple[Callable[[Facts], object], int]] = {
    "an order that was told to be committed has its row": (_forget, 1),
    "an order that was rolled back has no row": (
        lambda facts: facts.told.update({GOOD: "rolled back"}),
        0,
    ),
    "every email of a committed order is in the table": (
        lambda facts: (facts.emails.pop(1), facts.copies.pop(address(NEWS, 0))),
        1,
    ),
    "an order has no more emails than it wrote": (
        lambda facts: facts.orders.update({NEWS: Order(emails=1, recipients=1, policy="resend")}),
        0,
    ),
    "no email is without its business row": (
        lambda facts: (facts.orders.pop(GOOD), facts.told.pop(GOOD)),
        0,
    ),
    "an email is recorded as sent no oftener than it has recipients": (
        lambda facts: _replace(facts, 2, sent=2),
        0,
    ),
    "every email ends": (lambda facts: _replace(facts, 0, status="pending"), 1),
    "who is `sent` has a copy": (lambda facts: facts.copies.pop(address(GOOD, 0)), 1),
    "who is `failed` has no copy": (
        lambda facts: _replace(
            facts, 4, recipients=dict.fromkeys(facts.emails[4].recipients, "failed")
        ),
        1,  # nor was who has a copy ever refused
    ),
    "an email fails only if the server refused it": (lambda facts: facts.refused.clear(), 3),
    "who is refused on purpose gets nothing, and the email says so": (
        lambda facts: _replace(
            facts, 3, recipients=dict.fromkeys(facts.emails[3].recipients, "unknown")
        ),
        0,
    ),
    "while a class of emails is refused, others are taken": (
        lambda facts: setattr(facts.classes[f"{DOMAIN_REFUSED} at 1.5"], "taken", 0),
        0,
    ),
    "every fault was met by somebody": (
        lambda facts: facts.met.update({"PostgreSQL read-only": 0}),
        0,
    ),
    "`unknown` has been in doubt": (lambda facts: _replace(facts, 0, status="unknown"), 0),
    "nobody gets more copies than one and the doubts of the email": (
        lambda facts: _again(facts, NEWS, 1),
        0,
    ),
    "under `hold` nobody gets a second copy": (
        _repeat_though_held,
        0,
    ),
    "an email has the recipients that it was written to": (
        lambda facts: _replace(facts, 4, recipients={address(PAIR, 0): "sent"}),
        0,
    ),
    "every copy is of the same mail, with the same Message-ID": (
        lambda facts: _replace(facts, 0, message_id="<other@x>"),
        0,
    ),
    "the server has no email that the table has not": (
        lambda facts: facts.copies["who@x"].append(Copy(message_id="<?>", order="?")),
        0,
    ),
    "all copies too many are within the bound": (lambda facts: _again(facts, NEWS, 1), 0),
    "what was counted of the attempts is what their log says": (
        lambda facts: facts.miscounted.update({"minute 1": -1}),
        0,
    ),
    "no lease is left": (lambda facts: setattr(facts, "leases", 1), 0),
}


def _never_refused(facts: Facts) -> None:
    _replace(facts, 0, status="failed", recipients={address(GOOD, 0): "failed"})
    del facts.copies[address(GOOD, 0)]
    facts.refused[address(GOOD, 0)].append("421 4.7.0 try again later")


def test_who_is_halted_for_some_time_only_must_not_fail_for_it() -> None:
    facts = _kept()
    _never_refused(facts)
    assert list(judge(facts, BOUND).findings) == ["an email fails only if the server refused it"]


@pytest.mark.parametrize(
    ("age", "waited", "holds"), [(45, 45, True), (45, 44, False), (44, 45, False)]
)
def test_who_is_put_off_near_the_end_of_its_lifetime_may_fail_for_it(
    age: float, waited: float, holds: bool
) -> None:
    facts = _kept()
    _never_refused(facts)
    _replace(facts, 0, age=age, waited=waited)
    assert judge(facts, BOUND).holds is holds


@pytest.mark.parametrize(
    ("age", "waited", "told", "holds"),
    [
        (30, 30, "30.4 s halt mail 0", True),
        (30, 30, "30.4 s retry rcpt 450", False),
        (30, 29, "30.4 s halt mail 0", False),
        (29, 30, "30.4 s halt mail 0", False),
    ],
)
def test_who_is_halted_at_mail_when_half_its_lifetime_is_gone_may_fail_for_it(
    age: float, waited: float, told: str, holds: bool
) -> None:
    """The next delay behind the others would be the other half; the server knows no recipient."""
    facts = _kept()
    _never_refused(facts)
    del facts.refused[address(GOOD, 0)]
    _replace(facts, 0, age=age, waited=waited, told=(told,))
    assert judge(facts, BOUND).holds is holds


@pytest.mark.parametrize(
    ("domain", "sender", "octets"),
    [(CLOSED_DOMAIN, SHOP, 0), ("x.example", THROTTLED, 0), ("x.example", SHOP, HUGE)],
)
@pytest.mark.parametrize("status", ["sent", "failed", "pending"])
def test_who_is_halted_for_good_ends_and_gets_nothing(
    domain: str, sender: str, octets: int, status: str
) -> None:
    facts, to = _kept(), address(HALTED, 0, domain=domain)
    facts.orders[HALTED] = Order(
        emails=1, recipients=1, policy="resend", sender=sender, octets=octets
    )
    _replace(facts, 5, status=status, sent=0, recipients={to: status})
    facts.refused[to].append("450 4.7.1 rate limit exceeded")
    if status == "sent":
        facts.copies[to].append(Copy(message_id="<6@x>", order=HALTED))
    found = judge(facts, BOUND).findings
    sentence = "who is refused on purpose gets nothing, and the email says so"
    assert (sentence in found) == (status != "failed")
    assert bool(found) == (status != "failed")


def test_of_a_class_that_is_refused_several_times_all_times_count() -> None:
    facts = _kept()
    for copies in (4, 4):
        facts.classes[f"{DOMAIN_REFUSED} at 90"].note(copies)
    refused = facts.refused_classes()[DOMAIN_REFUSED]
    assert (refused.times, refused.taken) == (4, 3)
    assert judge(facts, BOUND).holds


@pytest.mark.parametrize("sentence", BREAKS)
def test_what_does_not_hold_is_found(sentence: str) -> None:
    facts = _kept()
    broken, lost = BREAKS[sentence]
    broken(facts)
    verdict = judge(facts, BOUND)
    assert sentence in verdict.findings
    assert not verdict.holds
    assert verdict.lost == lost


@pytest.mark.long
def test_the_auditor_shares_no_code_with_the_library() -> None:
    program = (
        "import sys, tests.soak.audit, tests.soak.facts, tests.soak.hosts.wire\n"
        "roots = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(roots & {'outbox', 'sqlalchemy'}))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
