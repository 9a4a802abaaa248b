"""The auditor: business rows, table and server against each other. It shares no code with outbox.

Each check is a sentence that holds for a system that keeps its promise; `judge` returns, for each
that does not hold, the cases.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.soak.classes import LIFETIME, STEPS, Refusal, refused_for_good
from tests.soak.facts import Facts, Mail, Order
from tests.soak.hosts.wire import refused_at

ENDS = frozenset({"sent", "failed", "unknown"})
"""How an email of the soak may end: nobody withdraws one, and none expires."""


@dataclass
class Verdict:
    """What the auditor found."""

    findings: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    emails: int = 0
    copies: int = 0
    lost: int = 0  # emails that should be and are not, or that nobody got though they say so
    repeated: int = 0  # copies beyond a recipient's first
    doubts: int = 0
    in_doubt: int = 0  # emails that were in doubt at least once
    bound: int = 0

    @property
    def holds(self) -> bool:
        """Return whether every sentence held."""
        return not self.findings


LOSSES = (
    "an order that was told to be committed has its row",
    "every email of a committed order is in the table",
    "every email ends",
    "who is `sent` has a copy",
    "an email fails only if the server refused it",
)
"""What counts as lost."""


def judge(facts: Facts, bound: int) -> Verdict:
    """Compare everything; `bound` is how many copies too many the faults can explain."""
    verdict = Verdict(bound=bound)
    _judge_orders(facts, verdict)
    known: dict[str, Mail] = {}
    for mail in facts.emails:
        for sentence in _wrong(mail, facts):
            verdict.findings[sentence].append(_describe(mail, facts))
        known.update(dict.fromkeys(mail.recipients, mail))
        verdict.doubts += mail.doubts
        verdict.in_doubt += mail.doubts > 0
    for recipient, copies in facts.copies.items():
        verdict.copies += len(copies)
        verdict.repeated += len(copies) - 1
        if recipient not in known:
            verdict.findings["the server has no email that the table has not"].append(recipient)
    if verdict.repeated > bound:
        verdict.findings["all copies too many are within the bound"].append(
            f"{verdict.repeated} of {bound}"
        )
    _judge_faults(facts, verdict)
    for what, more in facts.miscounted.items():
        sentence = "what was counted of the attempts is what their log says"
        verdict.findings[sentence].append(f"{what}: {more:+}")
    if facts.leases:
        verdict.findings["no lease is left"].append(str(facts.leases))
    verdict.emails = len(facts.emails)
    verdict.lost = sum(len(verdict.findings.get(sentence, ())) for sentence in LOSSES)
    return verdict


def _judge_orders(facts: Facts, verdict: Verdict) -> None:
    found: dict[str, int] = defaultdict(int)
    for mail in facts.emails:
        found[mail.order] += 1
    for reference, outcome in facts.told.items():
        there = reference in facts.orders
        if outcome == "committed" and not there:
            verdict.findings["an order that was told to be committed has its row"].append(reference)
        if outcome in ("rolled back", "failed") and there:
            verdict.findings["an order that was rolled back has no row"].append(reference)
    for reference, order in facts.orders.items():
        if missing := order.emails - found[reference]:
            sentence = "every email of a committed order is in the table"
            if missing < 0:
                sentence = "an order has no more emails than it wrote"
            verdict.findings[sentence] += [reference] * abs(missing)
    for reference in found.keys() - facts.orders.keys():
        verdict.findings["no email is without its business row"] += [reference] * found[reference]


def _judge_faults(facts: Facts, verdict: Verdict) -> None:
    for name, refused in facts.refused_classes().items():
        if refused.times and not refused.taken:
            verdict.findings["while a class of emails is refused, others are taken"].append(name)
    for kind, times in facts.met.items():
        if not times:
            verdict.findings["every fault was met by somebody"].append(kind)


def _wrong(mail: Mail, facts: Facts) -> Iterator[str]:
    """Name the sentences that do not hold for this email."""
    if mail.status not in ENDS:
        yield "every email ends"
    if mail.status == "unknown" and not mail.doubts:
        yield "`unknown` has been in doubt"
    if mail.sent > len(mail.recipients):
        yield "an email is recorded as sent no oftener than it has recipients"
    for to, status in mail.recipients.items():
        yield from _wrong_recipient(mail, to, status, facts)
    order = facts.orders.get(mail.order)
    if order is not None and order.recipients != len(mail.recipients):
        yield "an email has the recipients that it was written to"


def _wrong_recipient(mail: Mail, to: str, status: str, facts: Facts) -> Iterator[str]:
    copies = facts.copies.get(to, [])
    if status == "sent" and not copies:
        yield "who is `sent` has a copy"
    if status == "failed" and copies:
        yield "who is `failed` has no copy"
    order = facts.orders.get(mail.order)
    never = _refused_for_good(to, order)
    # A class that is halted for good is worn out by its lifetime; each of it was refused once. So
    # is an email whose own delays were nearly all of it: when it is put off, no other one fits in.
    worn = min(mail.age, mail.waited)
    is_worn_out = worn >= LIFETIME - max(STEPS)
    final = ("4", "5") if is_worn_out or (never is not None and never.halts) else "5"
    was_refused = any(r.startswith(final) for r in facts.refused.get(to, ()))
    # Behind the others an email waits as long again as it has waited in all. A server that halts it
    # at MAIL, or says nothing to it, does not know for whom it is, and notes no recipient.
    was_halted = worn >= LIFETIME / 2 and any(" halt mail" in told for told in mail.told)
    if status == "failed" and not (was_refused or was_halted):
        yield "an email fails only if the server refused it"
    if (refused_at(to) or never) and (copies or not _tells_refusal(mail, status)):
        yield "who is refused on purpose gets nothing, and the email says so"
    if len(copies) > 1 + mail.doubts:
        yield "nobody gets more copies than one and the doubts of the email"
    if order is not None and order.policy == "hold" and len(copies) > 1:
        yield "under `hold` nobody gets a second copy"
    if any((copy.message_id, copy.order) != (mail.message_id, mail.order) for copy in copies):
        yield "every copy is of the same mail, with the same Message-ID"


def _refused_for_good(to: str, order: Order | None) -> Refusal | None:
    if order is None:
        return None
    return refused_for_good(to, sender=order.sender, size=order.octets)


def _tells_refusal(mail: Mail, status: str) -> bool:
    """Where the final dot's reply was lost, the refusal that it was is not known."""
    return status == "failed" or (status == "unknown" and mail.doubts > 0)


def _describe(mail: Mail, facts: Facts) -> str:
    taken = {to: len(facts.copies.get(to, ())) for to in list(mail.recipients)[:4]}
    return (
        f"mail {mail.id} of {mail.order}: {mail.status} after {mail.age:.0f} s, of which it waited"
        f" {mail.waited:.0f}; {mail.doubts} doubts, copies {taken} {'; '.join(mail.told)}"
    )
