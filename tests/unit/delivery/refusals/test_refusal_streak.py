"""Refusals that are alike: which ones count, what is masked, and when the row is full."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.delivery.blame import Common, Traits
from outbox.domain.delivery.refusal_fingerprint import REFUSAL_LENGTH, fingerprint, refusal_of
from outbox.domain.delivery.refusal_streak import RefusalStreak, SystemicRefusal
from outbox.domain.delivery.transaction import Phase, RecipientResult, Reply, Transaction, Verdict

NEEDED = 3
BLOCKED = Reply(
    code=554,
    enhanced="5.7.1",
    text="Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org",
)

OTHER = Reply(code=554, enhanced="5.7.9", text="something else")
NO_SUCH_USER = Reply(code=550, enhanced="5.1.1", text="no such user")


def result(
    *addresses: str,
    verdict: Verdict = Verdict.FAIL,
    phase: Phase = Phase.RCPT,
    reply: Reply = BLOCKED,
) -> Transaction:
    recipients = tuple(
        RecipientResult(address=address, verdict=verdict, reply=reply) for address in addresses
    )
    return Transaction(verdict=verdict, phase=phase, reply=reply, recipients=recipients)


def sent(address: str = "s@x.example") -> Transaction:
    return result(address, verdict=Verdict.SENT, phase=Phase.DOT, reply=Reply(code=250))


def traits() -> Traits:
    return Traits(sender="shop@shop.example", domains=frozenset({"x.example"}), size=1000)


def run(*results: Transaction, known: str | None = None) -> list[SystemicRefusal | None]:
    """Return what a streak says of each email; all have contents of their own."""
    streak = RefusalStreak(NEEDED, known=known)
    return [streak.add(n, one, content=n, traits=traits) for n, one in enumerate(results)]


def refusals(count: int, **changes: object) -> list[Transaction]:
    return [result(f"r{n}@x.example", **changes) for n in range(count)]  # type: ignore[arg-type]


def test_so_many_emails_refused_alike_in_a_row_are_the_servers_fault() -> None:
    *before, full = run(*refusals(NEEDED))
    assert before == [None] * (NEEDED - 1)
    assert full is not None
    assert full.emails == {0, 1, 2}
    assert full.reason.startswith("every email is refused alike: rcpt: 554 5.7.1 Service")


def test_an_email_that_goes_in_parts_counts_once() -> None:
    streak = RefusalStreak(NEEDED)
    parts = refusals(2 * NEEDED)
    assert not any(streak.add(1, part, content=1, traits=traits) for part in parts)


def test_from_the_third_refusal_on_it_is_told_what_they_have_in_common() -> None:
    streak = RefusalStreak(10)
    for n, refused in enumerate(refusals(3)):
        assert streak.common is None
        streak.add(n, refused, content=n, traits=traits)
    assert streak.common == Common.of([traits()])


def test_what_was_on_its_way_when_the_row_was_full_belongs_to_it() -> None:
    last = run(*refusals(NEEDED + 2))[-1]
    assert last is not None
    assert last.emails == {0, 1, 2, 3, 4}


def test_an_email_that_is_taken_in_between_begins_a_new_row() -> None:
    two, one = refusals(NEEDED)[:2], result("z@x.example")
    assert run(*two, sent(), one) == [None] * 4


@pytest.mark.parametrize(
    "verdict", [Verdict.HALT, Verdict.SUSPECT, Verdict.LACKING, Verdict.UNSENT]
)
def test_what_judges_no_email_neither_counts_nor_breaks_the_row(verdict: Verdict) -> None:
    nothing = result("n@x.example", verdict=verdict, phase=Phase.BODY, reply=Reply(code=0))
    *_, full = run(*refusals(2), nothing, result("z@x.example"))
    assert full is not None
    assert full.emails == {0, 1, 3}


def hung_up(
    *addresses: str, verdict: Verdict, reply: Reply = BLOCKED, mixed: bool = False
) -> Transaction:
    """Return what comes of a server that hangs up on the last of these."""
    *refused, last = addresses
    full = Reply(code=421)
    recipients = [
        *(RecipientResult(address=a, verdict=Verdict.FAIL, reply=reply) for a in refused),
        RecipientResult(address=last, verdict=verdict, reply=full),
    ]
    return Transaction(
        verdict=verdict, phase=Phase.RCPT, reply=full, recipients=tuple(recipients), mixed=mixed
    )


EARLY = pytest.mark.parametrize("verdict", [Verdict.SUSPECT, Verdict.UNSENT])


@EARLY
def test_emails_whose_recipients_were_refused_before_the_server_hung_up_count(
    verdict: Verdict,
) -> None:
    early = hung_up("a@x.example", "b@x.example", "c@x.example", verdict=verdict)
    *_, full = run(*refusals(NEEDED - 1), early)
    assert full is not None
    assert full.emails == {0, 1, 2}


def test_emails_to_one_recipient_count_once() -> None:
    assert run(*[result("a@x.example")] * 10) == [None] * 10


def test_a_content_that_is_refused_counts_once() -> None:
    """A newsletter that a filter refuses says nothing about other emails."""
    streak = RefusalStreak(NEEDED)
    news = refusals(10, phase=Phase.DOT)
    assert [streak.add(n, one, content=1, traits=traits) for n, one in enumerate(news)] == [
        None
    ] * 10
    assert streak.add(10, result("y@x.example", phase=Phase.DOT), content=2, traits=traits) is None
    assert (
        streak.add(11, result("z@x.example", phase=Phase.DOT), content=3, traits=traits) is not None
    )


def test_a_probe_that_meets_the_known_refusal_is_enough() -> None:
    known = refusal_of(result("a@x.example"))
    (alike,) = run(result("b@x.example"), known=known)
    assert alike is not None
    assert alike.refusal == known
    assert alike.emails == {0}
    (alike,) = run(result("b@x.example", reply=OTHER), known=known)
    assert alike is not None, "in other words it refuses all the same"
    for own in (result("b@x.example", reply=NO_SUCH_USER), result("b@x.example", phase=Phase.DOT)):
        assert run(own, known=known) == [None]


def test_the_row_that_goes_on_is_told_for_the_review_of_the_log() -> None:
    streak = RefusalStreak(NEEDED)
    assert (streak.refusal, streak.refusals) == (None, ())
    streak.add(1, result("a@x.example"), content=1, traits=traits)
    alike = refusal_of(result("b@x.example"))
    assert (streak.refusal, streak.refusals) == (alike, (alike,))
    streak.add(2, result("b@x.example", reply=NO_SUCH_USER), content=2, traits=traits)
    assert (streak.refusal, streak.refusals) == (None, (alike,))
    streak.add(3, sent(), content=3, traits=traits)
    assert (streak.refusal, streak.refusals) == (None, ())


def test_emails_with_several_recipients_count_where_all_are_refused_alike() -> None:
    *_, full = run(*(result(f"a{n}@x.example", f"b{n}@x.example") for n in range(NEEDED)))
    assert full is not None
    mixed = result("a@x.example", "b@x.example")
    other = RecipientResult(address="b@x.example", verdict=Verdict.FAIL, reply=Reply(code=552))
    assert refusal_of(
        Transaction(
            verdict=Verdict.FAIL,
            phase=Phase.RCPT,
            reply=BLOCKED,
            recipients=(mixed.recipients[0], other),
        )
    ) is None  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("<a@x.example>: blocked", "<someone.else@y.example>: blocked"),
        ("Client host [192.0.2.1] blocked", "Client host [198.51.100.77] blocked"),
        ("queue id 4ZxK3n1Qb0z", "queue id 9GhA7m5Tc2w"),
        ("1rT4vX-0001aB-7f rejected", "1rU9zZ-000Qqq-2k rejected"),
        ("see https://x.example/q?ip=192.0.2.1", "see https://x.example/q?ip=192.0.2.9"),
        ("relay-ams.x.example: blocked", "relay-fra.x.example: blocked"),
        ("blocked using zen.dnsbl.example", "blocked using bl.list.example"),
        ("ref AbCdEfGhIjKl", "ref MnOpQrStUvWx"),
        ("blocked   twice", "blocked twice"),
    ],
)
def test_addresses_ids_and_numbers_are_masked(one: str, other: str) -> None:
    def of(text: str) -> str | None:
        return fingerprint(Phase.RCPT, Reply(code=554, enhanced="5.7.1", text=text))

    assert of(one) is not None
    assert of(one) == of(other)


@pytest.mark.parametrize(
    ("phase", "reply"),
    [
        (Phase.MAIL, BLOCKED),
        (Phase.RCPT, Reply(code=550, enhanced="5.7.1", text=BLOCKED.text)),
        (Phase.RCPT, Reply(code=554, enhanced="5.7.0", text=BLOCKED.text)),
        (Phase.RCPT, Reply(code=554, enhanced="5.7.1", text="Relay access denied")),
    ],
)
def test_another_phase_code_enhanced_code_or_text_is_not_alike(phase: Phase, reply: Reply) -> None:
    assert fingerprint(phase, reply) != fingerprint(Phase.RCPT, BLOCKED)


@pytest.mark.parametrize(
    ("code", "enhanced", "text"),
    [
        (550, "5.1.1", "Recipient address rejected: User unknown"),
        (550, "5.1.10", "null MX"),
        (452, "4.2.2", "over quota"),
        (550, "5.2.1", "mailbox disabled"),
        (550, "", "No such user here"),
        (550, "", "mailbox unavailable"),
        (550, "", "<a@x.example>: recipient not found"),
        (451, "4.7.1", "Greylisted, come back later"),
        (450, "", "you are greylisted"),
        (450, "4.7.1", "you are not known here"),
        (450, "4.7.1", "Client host rejected: Greylisted, see http://postgrey.example/help"),
        (450, "4.7.1", "Client host rejected: You are being delayed"),
        (450, "4.7.1", "Client host rejected: wait... and send it again."),
        (450, "4.7.1", "Client host rejected: Please retry in 5 minutes"),
        (450, "4.7.1", "<mail.shop.example>: Helo command rejected: Try later"),
        (451, "4.7.1", "Service unavailable - try again later"),
        (0, "", "the connection is closed"),
        (250, "2.0.0", "ok"),
    ],
)
def test_a_recipients_own_matter_is_never_the_servers(code: int, enhanced: str, text: str) -> None:
    assert fingerprint(Phase.RCPT, Reply(code=code, enhanced=enhanced, text=text)) is None


@pytest.mark.parametrize(
    ("code", "enhanced", "text"),
    [
        (554, "5.7.1", "Service unavailable; Client host [192.0.2.1] blocked using zen"),
        (554, "", "Service unavailable; Client host [192.0.2.1] blocked using zen"),
        (550, "", "Your IP address is disabled here"),
        (553, "5.1.8", "Sender address rejected: Domain not found"),
        (451, "4.3.0", "Temporary lookup failure"),
        (450, "4.7.1", "Client host rejected: cannot find your hostname, [192.0.2.1]"),
        (450, "4.7.25", "Client host rejected: cannot find your hostname, [192.0.2.1]"),
        (450, "4.7.1", "<mail.shop.example>: Helo command rejected: Host not found"),
        (450, "4.7.1", "<later.example>: Helo command rejected: Host not found"),
        (450, "4.7.1", "<mail.waitrose.example>: Helo command rejected: Host not found"),
        (450, "4.7.1", "Client host rejected: no name, see https://shop.example/retry.html"),
        (450, "4.7.1", "Service unavailable; Client host [192.0.2.1] blocked using zen"),
        (451, "4.7.1", "Service unavailable"),
        (450, "4.7.1", "End-of-data rejected: Number messages per hour exceeded"),
    ],
)
def test_what_says_nothing_of_the_recipient_is_the_servers(
    code: int, enhanced: str, text: str
) -> None:
    assert fingerprint(Phase.RCPT, Reply(code=code, enhanced=enhanced, text=text)) is not None


@given(st.text(max_size=600))
def test_a_fingerprint_fits_its_column_and_names_nobody(text: str) -> None:
    found = fingerprint(Phase.RCPT, Reply(code=554, enhanced="5.7.1", text=f"a@x.example {text}"))
    assert found is not None
    assert len(found) <= REFUSAL_LENGTH
    assert "a@x.example" not in found
