"""Plays a case from enqueue to record, and asserts all that anybody can see of it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import select, update

from outbox.domain.delivery.transaction import Phase, Verdict
from outbox.store.control import circuit_breaker
from outbox.store.schema.clock import utc
from outbox.worker.drain import drain
from tests.support.servers.authority import Authority
from tests.support.servers.smtp.stateful import EXTENSIONS, StatefulServer
from tests.support.shop.shop import Shop, Shops, message
from tests.support.verdicts.case import LEASE, Case, Following, Recipient, said
from tests.support.verdicts.send import send

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outbox import Email

DAY = 86_400.0
COARSE = timedelta(milliseconds=10)
"""SQLite's clock counts milliseconds."""
WITHHELD = "(the server's words are not kept: they may repeat the credentials)"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The shop and the server of one case, the case's email, and the one behind it."""

    case: Case
    shop: Shop
    server: StatefulServer
    mail: Email
    behind: Email

    @property
    def server_name(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    def stored(self, email: Email) -> bytes:
        """Return the octets that are stored for an email."""
        row, table = self.shop.email_row(email.id), self.shop.tables.content
        [content] = self.shop.rows(table, table.c.id == row.content_id)
        return bytes(row.headers + content.body)

    def accepted(self, email: Email) -> list[tuple[tuple[str, ...], int]]:
        """Return whom the server accepted this email for, and on which connection."""
        octets = self.stored(email)
        taken = [mail for mail in self.server.accepted if mail.content == octets]
        return [(mail.recipients, mail.connection) for mail in taken]

    def log(self, email: Email) -> list[Any]:
        """Return the attempts of an email."""
        table = self.shop.tables.attempt
        return list(self.shop.rows(table, table.c.email_id == email.id))


def play(
    case: Case, shops: Shops, authority: Authority | None = None, *, pipelining: bool = False
) -> None:
    """Send the case's email and one behind it; then, a day later, what is left."""
    with on_stage(case, shops, authority, pipelining=pipelining) as stage:
        before = moment(stage.shop)
        send(stage)
        after = moment(stage.shop)
        assert not stage.server.unused, "the server did not come to say its part"
        if not pipelining:
            assert not stage.server.out_of_order
        expect_the_mail(stage, before, after)
        expect_the_breaker(stage, before, after)
        expect_the_one_behind(stage)
        if authority is not None and case.tls is not None:
            stage.server.starttls = authority.server  # a certificate that was wrong is mended
        stage.shop.later(DAY)
        drain(stage.shop.runtime)
        if case.verdict is Verdict.LACKING:
            expect_to_fail_in_the_end(stage)
        else:
            expect_the_end(stage)


@contextmanager
def on_stage(
    case: Case, shops: Shops, authority: Authority | None = None, *, pipelining: bool = False
) -> Iterator[Stage]:
    """Start the case's server, and a shop with its email and one behind it."""
    extensions = [e for e in EXTENSIONS if e.partition(" ")[0] not in case.lacks]
    extensions += [*case.offers, *(["PIPELINING"] if pipelining else [])]
    config: dict[str, object] = dict(case.config)
    tls: dict[str, Any] = {}
    if case.tls is not None:
        assert authority is not None
        config |= case.tls.config
        if case.tls.trusted:
            config["OUTBOX_TLS_CA_FILE"] = authority.ca_file
        kind = "tls" if case.tls.config.get("MAIL_USE_SSL") else "starttls"
        tls[kind] = getattr(authority, case.tls.certificate)
    with StatefulServer(case.answers, extensions=tuple(extensions), **tls) as server:
        shop = shops.open(**settings(server, config))
        shop.runtime.random = lambda: 0.5
        mail = case.mail() if case.mail else message(*addresses(case), subject="the case")
        with shop.session() as session:
            first = shop.outbox.enqueue(mail, session=session)
            second = shop.outbox.enqueue(
                message("behind@x.example", subject="behind"), session=session
            )
            session.commit()
        if case.altered_to:
            _alter(shop, first, case.altered_to)
        yield Stage(case=case, shop=shop, server=server, mail=first, behind=second)


def _alter(shop: Shop, mail: Email, recipient: str) -> None:
    email = shop.tables.email
    statement = update(email).where(email.c.id == mail.id).values(recipient=recipient)
    shop.runtime.database.run(lambda connection: connection.execute(statement))


def settings(server: StatefulServer, config: Mapping[str, object]) -> dict[str, object]:
    """Return the app's settings for a server, with time-outs that no passing case reaches."""
    patience = {"COMMAND_TIMEOUT": 10.0, "DOT_TIMEOUT": 10.0, "LEASE": LEASE}
    defaults: dict[str, object] = {f"OUTBOX_{key}": value for key, value in patience.items()}
    return defaults | {"MAIL_PORT": server.port} | dict(config)


def addresses(case: Case) -> list[str]:
    """Return whom the case's email goes to."""
    return [f"{'abcdef'[n]}@x.example" for n in range(max(1, len(case.recipients)))]


def moment(shop: Shop) -> datetime:
    """Return the database's time."""
    with shop.engine.connect() as connection:
        found: datetime = connection.execute(select(shop.database.now())).scalar_one()
    return utc(found)


def expect_the_mail(stage: Stage, before: datetime, after: datetime) -> None:
    """The row, its recipients' rows and the attempt log tell what happened."""
    case, row = stage.case, stage.shop.email_row(stage.mail.id)
    want = case.outcome
    assert (row.status, row.attempts, row.crashes, row.unknown_count, row.token) == (
        (want.status, want.attempts, want.crashes, want.unknown_count, None)
    )
    if want.status != "pending":
        assert row.due_at is None
        assert before - COARSE <= utc(row.finished_at) <= after + COARSE
    elif want.delay:
        wait = timedelta(seconds=want.delay)
        assert before + wait - COARSE <= utc(row.due_at) <= after + wait + COARSE
    else:
        assert row.due_at == row.created_at, "it keeps its place"
    _expect_recipients(stage)
    _expect_log(stage)


def _expect_recipients(stage: Stage) -> None:
    table = stage.shop.tables.recipient
    rows = stage.shop.rows(table, table.c.email_id == stage.mail.id)
    assert [row.status for row in rows] == [r.status for r in stage.case.recipients]
    for row, want in zip(rows, stage.case.recipients, strict=True):
        if stage.case.verdict in (Verdict.HALT, Verdict.LACKING):
            assert row.code is None, "nobody was judged"
            continue
        reply = said(want.reply) if want.reply else stage.case.reply
        assert (row.code, row.enhanced) == (reply.code, reply.enhanced)
        assert reply.text in row.reply


def _expect_log(stage: Stage) -> None:
    case, rows = stage.case, stage.log(stage.mail)
    assert len(rows) == (case.transactions if case.is_logged else 0)
    for row in rows:
        assert (row.verdict, row.phase) == (case.charged, case.phase)
        assert (row.code, row.enhanced) == (case.reply.code, case.reply.enhanced)
        _expect_text(case, row.reply, case.reply.text)
        assert row.server == stage.server_name
        assert row.worker == stage.shop.runtime.worker
        assert utc(row.started_at) <= utc(row.finished_at)


def expect_the_breaker(stage: Stage, before: datetime, after: datetime) -> None:
    """A halt, and nothing else, opens it, with the reason, for as long as the table says."""
    case, rows = stage.case, stage.shop.rows(stage.shop.tables.breaker)
    if case.verdict is Verdict.LACKING:
        [row] = rows
        assert (row.state, bool(row.alert), row.suspect_id) == ("suspected", True, stage.mail.id)
        assert case.reply.text in row.reason
        return
    if case.silent_at:
        [row] = rows
        assert (row.state, row.cause, row.suspect_id) == ("suspected", "silence", stage.mail.id)
        return
    if case.verdict is not Verdict.HALT:
        assert not rows
        return
    [row] = rows
    assert (row.server, row.failures, bool(row.alert)) == (stage.server_name, 1, case.alert)
    where, _, text = row.reason.partition(f": {case.reply.code} ")
    assert where == case.phase
    _expect_text(case, text, case.reply.text)
    pause = timedelta(seconds=case.pause)
    assert before + pause - COARSE <= utc(row.retry_at) <= after + pause + COARSE


def _expect_text(case: Case, text: str, told: str) -> None:
    """A reply stands there as it was said; of an event a part of the text is enough.

    But for a reply to AUTH: its words may quote the password.
    """
    if case.event:
        assert told in text
    elif case.phase is Phase.AUTH:
        assert text == f"{case.reply.enhanced} {WITHHELD}"
    else:
        assert text == told


def expect_the_one_behind(stage: Stage) -> None:
    """The next email goes out as if nothing had been, or waits uncharged for a halted server."""
    row, accepted = stage.shop.email_row(stage.behind.id), stage.accepted(stage.behind)
    assert row.crashes == row.unknown_count == 0
    if stage.case.following is Following.LATER:
        assert (row.status, row.attempts, accepted) == ("pending", 0, [])
        assert row.due_at == row.created_at
        return
    assert (row.status, row.attempts) == ("sent", 1)
    [(recipients, connection)] = accepted
    assert recipients == ("behind@x.example",)
    if stage.case.following is not Following.EITHER:
        assert (connection == 0) is (stage.case.following is Following.SAME)


def expect_to_fail_in_the_end(stage: Stage) -> None:
    """What no server offers is waited for, less and less often, until the lifetime is over."""
    for _ in range(60):
        if stage.shop.status(stage.mail.id) == "failed":
            break
        stage.shop.later(DAY / 8)
        drain(stage.shop.runtime)
    row = stage.shop.email_row(stage.mail.id)
    assert (row.status, row.attempts, stage.accepted(stage.mail)) == ("failed", 0, [])
    assert {entry.verdict for entry in stage.log(stage.mail)} == {"lacking"}
    assert len(stage.log(stage.mail)) < 50


def expect_the_end(stage: Stage) -> None:
    """A day later everybody who is to have an email has it once, in the octets that are stored."""
    shop, case = stage.shop, stage.case
    ended = {"pending": "sent"}.get(case.outcome.status, case.outcome.status)
    assert shop.statuses() == [ended, "sent"]
    assert shop.count(shop.tables.lease) == 0
    assert shop.database.read(lambda c: circuit_breaker.read(c, shop.database)) == {}
    assert [recipients for recipients, _ in stage.accepted(stage.behind)] == [("behind@x.example",)]
    alone = (Recipient(status=case.outcome.status),)
    fates = [r.status for r in case.recipients or alone]
    resent = case.outcome.status == "pending"
    served = {"sent"} | ({"pending", "unknown"} if resent else set())
    envelope = [address for to, _ in stage.accepted(stage.mail) for address in to]
    wanted = stage.shop.email_row(stage.mail.id).recipient if not case.recipients else ""
    names = addresses(case) if case.recipients else [wanted]
    assert sorted(envelope) == [
        name for name, fate in zip(names, fates, strict=True) if fate in served
    ]
    assert shop.email_row(stage.mail.id).unknown_count == (
        0 if resent else case.outcome.unknown_count
    )
    first = [case.charged.value] * case.transactions if case.is_logged else []
    verdicts = [row.verdict for row in stage.log(stage.mail)]
    assert verdicts == first + (["sent"] if resent else [])
