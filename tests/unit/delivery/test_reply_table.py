"""The table of replies, row by row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.domain.delivery.reply_table import ROWS, Event, is_out_of_step, judge
from outbox.domain.delivery.reply_words import named_delay
from outbox.domain.delivery.transaction import Phase, Reply, Verdict
from outbox.smtp.reply_reader import parse_reply

SESSION = [Phase.CONNECT, Phase.GREETING, Phase.EHLO, Phase.STARTTLS, Phase.AUTH]
COMMANDS = [Phase.MAIL, Phase.RCPT, Phase.DATA]
BEFORE_DOT = [*COMMANDS, Phase.BODY]
MAILING = [*BEFORE_DOT, Phase.DOT]
NONE = Reply(code=0)


def reply(line: str) -> Reply:
    code, _, text = line.partition(" ")
    return parse_reply(int(code), text.encode())


@pytest.mark.parametrize(
    ("phases", "line", "verdict"),
    [
        (SESSION, "450 busy", Verdict.HALT),
        (SESSION, "554 no", Verdict.HALT),
        (SESSION, "421 bye", Verdict.HALT),
        (SESSION, "530 5.7.0 Must issue a STARTTLS command first", Verdict.HALT),
        (MAILING, "421 bye", Verdict.SUSPECT),
        (MAILING, "421 4.7.0 Try again later", Verdict.SUSPECT),
        (MAILING, "530 5.7.0 Must issue a STARTTLS command first", Verdict.SUSPECT),
        (MAILING, "454 Throttling failure: Daily quota exceeded", Verdict.SUSPECT),
        ([Phase.RCPT], "450 4.2.1 The user is receiving mail too quickly", Verdict.SUSPECT),
        ([Phase.RCPT], "450 4.2.1 mailbox disabled", Verdict.RETRY),
        ([Phase.MAIL], "451 4.3.0 Temporary server error", Verdict.SUSPECT),
        ([Phase.MAIL], "452 4.3.1 Insufficient system storage", Verdict.SUSPECT),
        ([Phase.RCPT, Phase.DATA, Phase.DOT], "451 4.3.0 lookup failed", Verdict.RETRY),
        ([Phase.MAIL], "451 sending rate too high", Verdict.SUSPECT),
        ([Phase.MAIL], "550 5.4.5 Daily user sending quota exceeded", Verdict.SUSPECT),
        ([*COMMANDS, Phase.DOT], "451 later", Verdict.RETRY),
        ([*COMMANDS, Phase.DOT], "550 no", Verdict.FAIL),
        ([*COMMANDS, Phase.DOT], "503 bad sequence", Verdict.RETRY),
        (COMMANDS, "354 go on", Verdict.RETRY),
        ([Phase.DATA], "250 ok", Verdict.RETRY),
        ([Phase.DOT], "250 ok", Verdict.SENT),
        ([Phase.DOT], "251 ok", Verdict.SENT),
        ([Phase.DOT], "354 go on", Verdict.UNKNOWN),
        ([Phase.DOT], "0 nothing", Verdict.UNKNOWN),
        ([Phase.RCPT], "452 too many recipients", Verdict.RETRY),
        ([Phase.RCPT], "552 too many recipients", Verdict.FAIL),
        ([Phase.RCPT], "550 5.5.3 too many recipients", Verdict.FAIL),
    ],
)
def test_a_reply_is_judged_by_its_phase(phases: list[Phase], line: str, verdict: Verdict) -> None:
    assert {judge(phase, reply(line)).verdict for phase in phases} == {verdict}


@pytest.mark.parametrize(
    ("phases", "event", "verdict"),
    [
        (SESSION, Event.CLOSED, Verdict.HALT),
        (SESSION, Event.TIMEOUT, Verdict.HALT),
        (SESSION, Event.GARBAGE, Verdict.HALT),
        (SESSION, Event.LACKING, Verdict.HALT),
        (SESSION, Event.UNVERIFIED, Verdict.HALT),
        (BEFORE_DOT, Event.CLOSED, Verdict.UNSENT),
        (BEFORE_DOT, Event.TIMEOUT, Verdict.UNSENT),
        (BEFORE_DOT, Event.LEASE, Verdict.UNSENT),
        (BEFORE_DOT, Event.GIVEN_UP, Verdict.UNSENT),
        (BEFORE_DOT, Event.TOO_LONG, Verdict.RETRY),
        (COMMANDS, Event.GARBAGE, Verdict.RETRY),
        ([Phase.MAIL], Event.LACKING, Verdict.LACKING),
        ([Phase.MAIL], Event.MALFORMED, Verdict.FAIL),
        ([Phase.DOT], Event.CLOSED, Verdict.UNKNOWN),
        ([Phase.DOT], Event.TIMEOUT, Verdict.UNKNOWN),
        ([Phase.DOT], Event.GARBAGE, Verdict.UNKNOWN),
    ],
)
def test_a_missing_reply_is_judged_by_what_happened(
    phases: list[Phase], event: Event, verdict: Verdict
) -> None:
    assert {judge(phase, NONE, event=event).verdict for phase in phases} == {verdict}


@pytest.mark.parametrize(
    "line",
    [
        "452 4.5.3 too many recipients",
        "552 too many recipients",
        "450 4.5.3 too many recipients",
        "550 5.5.3 too many recipients",
        "554 5.5.3 more",
    ],
)
def test_too_many_recipients_after_an_accepted_one_wait_for_the_next_transaction(line: str) -> None:
    judgement = judge(Phase.RCPT, reply(line), accepted=True)

    assert (judgement.verdict, judgement.renew) == (Verdict.NEXT, False)


@pytest.mark.parametrize("line", ["250 2.0.0 Ok", "251 will forward", "299", "200 wait 5 s"])
def test_a_good_reply_to_the_dot_is_judged_as_its_row_says(line: str) -> None:
    told = reply(line)
    row = next(row for row in ROWS if row.applies(Phase.DOT, str(told.code), told, True))
    found = judge(Phase.DOT, told)
    assert (found.verdict, found.alert, found.renew) == (row.verdict, row.alert, row.renew)
    assert found.retry_after is None


def test_a_person_is_called_where_only_a_person_can_help() -> None:
    assert judge(Phase.AUTH, reply("535 5.7.8 wrong")).alert
    assert judge(Phase.AUTH, NONE, event=Event.LACKING).alert
    assert judge(Phase.MAIL, reply("530 5.7.0 authentication required")).alert
    assert not judge(Phase.AUTH, reply("454 4.7.0 later")).alert
    assert not judge(Phase.STARTTLS, NONE, event=Event.LACKING).alert
    for phase in (Phase.CONNECT, Phase.STARTTLS):
        assert judge(phase, NONE, event=Event.UNVERIFIED).alert
        assert not judge(phase, NONE, event=Event.CLOSED).alert


def test_a_connection_out_of_step_is_renewed_and_a_plain_refusal_keeps_it() -> None:
    for out_of_step in ("503 what", "354 go", "421 bye"):
        assert judge(Phase.MAIL, reply(out_of_step)).renew
    for refusal in ("450 later", "550 no"):
        assert not judge(Phase.MAIL, reply(refusal)).renew
    assert judge(Phase.DOT, NONE, event=Event.GARBAGE).renew


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("450 try again in 300 seconds", 300),
        ("450 retry in 5 minutes", 300),
        ("451 4.7.1 Greylisted, please retry after 90 sec", 90),
        ("451 4.7.1 Greylisted, retry in 5s", 60),
        ("450 Greylisted for 10 minutes", 600),
        ("450 4.7.1 come back later", 60),
        ("451 greylisting in action", 60),
        ("450 4.7.1 Client host rejected: Greylisted, see http://postgrey.example/help", 60),
        ("450 4.7.1 Client host rejected: cannot find your hostname", None),
        ("450 4.7.1 <a@x.example>: Recipient address rejected: rate limit exceeded", None),
        ("450 4.7.1 Number messages per hour exceeded, try again in 300 seconds", 300),
        ("450 4.7.1 Greylisted: too many messages", 60),
        ("450 4.7.1 <throttle@x.example>: Recipient address rejected: not yet", 60),
        ("451 wait 2 hours", 7200),
        ("450 try again in 900000000 hours", 86_400),
        ("450 try again later", None),
        ("450 mailbox of 300 minutes", None),
        ("550 try again in 300 seconds", None),
    ],
)
def test_a_named_delay_or_greylisting_sets_the_next_attempt(
    line: str, seconds: float | None
) -> None:
    assert judge(Phase.RCPT, reply(line)).retry_after == seconds


def test_a_halt_keeps_the_time_that_it_names() -> None:
    assert judge(Phase.MAIL, reply("421 try again in 10 minutes")).retry_after == 600


@pytest.mark.parametrize("phase", SESSION)
def test_no_session_is_put_off_for_longer_than_an_hour(phase: Phase) -> None:
    assert judge(phase, reply("454 4.7.0 try again in 24 hours")).retry_after == 3600
    assert judge(phase, reply("421 try again in 10 minutes")).retry_after == 600
    assert judge(phase, reply("421 no")).retry_after is None


@given(st.sampled_from(Phase), st.integers(0, 999), st.text(max_size=80), st.booleans())
def test_every_reply_in_every_phase_has_a_row(
    phase: Phase, code: int, text: str, accepted: bool
) -> None:
    judgement = judge(phase, Reply(code=code, text=text), accepted=accepted)

    assert (judgement.verdict is Verdict.SENT) == (phase is Phase.DOT and str(code)[0] == "2")
    assert (judgement.verdict is Verdict.UNKNOWN) <= (phase is Phase.DOT)
    assert judgement.retry_after is None or 0 <= judgement.retry_after <= 86_400


@pytest.mark.parametrize(
    ("codes", "is_late"),
    [
        ([550, 503, 503], False),
        ([550, 550, 554], False),
        ([550], False),  # alone, without PIPELINING
        ([550, 250, 354], False),  # a server that looks at each command by itself
        ([550, 250, 250], True),
        ([550, 250, 554], True),  # its recipient was refused, and so was DATA
        ([550, 250, 550, 354], False),
        ([550, 250, 250, 550], True),
        ([550, 250], True),  # the group's end, or the connection's
    ],
)
def test_replies_one_place_late_are_told_by_a_recipient_of_a_refused_email(
    codes: list[int], is_late: bool
) -> None:
    assert is_out_of_step(codes) is is_late


@given(st.text())
def test_any_text_names_a_delay_of_at_most_a_day_or_none(text: str) -> None:
    seconds = named_delay(text)
    assert seconds is None or 0 <= seconds <= 86_400


def test_no_row_is_hidden_by_an_earlier_one() -> None:
    for row in ROWS:
        earlier = ROWS[: ROWS.index(row)]
        assert not any(
            other.phases >= row.phases
            and row.key.startswith(other.key)
            and not (other.enhanced or other.text or other.after_accepted)
            for other in earlier
        ), row
