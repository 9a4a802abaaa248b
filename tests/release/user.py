"""An app's own code that uses every public name, as mypy sees it in a user's project."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from typing import assert_type

from flask import Flask
from flask_mail import Message
from sqlalchemy import MetaData, create_engine
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session, scoped_session, sessionmaker

import outbox as package
from outbox import (
    Action,
    AttemptDetails,
    AuditEntry,
    Backlog,
    BatchDetails,
    ConfigurationError,
    Corrections,
    DryRun,
    Email,
    EmailDetails,
    EmailPage,
    EmailSummary,
    Erasure,
    ExportedEmail,
    FailureCount,
    Figures,
    FiguresPoint,
    Fleet,
    Health,
    HeldEmails,
    InvalidMessage,
    Job,
    JobState,
    KeyConflict,
    KeyContention,
    Left,
    MessageText,
    OnUnknown,
    Outbox,
    OutboxError,
    OutboxMail,
    Pause,
    Period,
    Priority,
    Problem,
    Problems,
    Progress,
    RateLimited,
    Reason,
    RecipientDetails,
    Released,
    Restored,
    RowsLocked,
    SentAgain,
    ServerStatus,
    Stats,
    Status,
    Suppression,
    Suppressions,
    TimeToAccepted,
    Unchanged,
    WorkerDetails,
    WorkerState,
    __version__,
    celery_config,
    email_failed,
    email_sent,
    email_unknown,
    outbox_health_changed,
)
from outbox.dashboard import Access, Dashboard, Role, basic_auth, flask_login
from outbox.testing import Delivery, EnqueuedEmail, OutboxTester, Replies

engine = create_engine("sqlite://")
sessions = scoped_session(sessionmaker(engine))
outbox = Outbox()
mail = OutboxMail()
access: Access = flask_login(lambda user: Role.ACT if user.is_staff else None)
dashboard = Dashboard(access=basic_auth({"ada": ("pbkdf2:sha256:1$salt$hash", Role.READ)}))
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def create_app() -> Flask:
    app = Flask("shop")
    mail.init_app(app)
    outbox.init_app(app, session=sessions, metadata=MetaData(), engine=engine)
    app.config["BEAT"] = celery_config.beat_schedule(app.config)
    assert len(celery_config.QUEUES) > 1
    assert celery_config.SteadyScheduler is not None
    return app


def write(session: Session, order: int) -> Email:
    message = Message("Your order", ["ada@x.example"], sender="shop@x.example")
    email = outbox.enqueue(
        message,
        session=session,
        priority=Priority.URGENT,
        send_at=NOON,
        expires_at=NOON + timedelta(days=1),
        key=f"order-{order}",
        tag="order",
        on_unknown=OnUnknown.HOLD,
        max_attempts=3,
        envelope_from="bounces@x.example",
        auto_submitted=True,
        unsubscribe=("https://x.example/u", "mailto:u@x.example"),
    )
    assert_type(email.id, int)
    assert_type(email.created, bool)
    standard = EmailMessage()
    outbox.enqueue(standard, priority="bulk")
    mail.send(message)
    return email


def write_many(message: Message, readers: list[tuple[str, str]]) -> int:
    url_of: Callable[[str], str] = "https://x.example/{}".format
    new = outbox.enqueue_many(
        message,
        readers,
        key=lambda address: f"news-{address}",
        unsubscribe=url_of,
        fields=lambda address: {"name": address, "points": 7},
    )
    new += outbox.enqueue_many([message, message])
    assert_type(new, int)
    return new


async def write_async(session: AsyncSession, message: Message) -> Email:
    new = await outbox.enqueue_many_async(message, ["ada@x.example"], session=session, tag="news")
    assert_type(new, int)
    assert_type(await outbox.cancel_async(tag="news", session=session), int)
    return await outbox.enqueue_async(message, session=session, key="order-7")


def careful(message: Message) -> str:
    try:
        outbox.enqueue(message)
    except InvalidMessage as error:
        return f"{error.field}: {error.rule}"
    except (KeyConflict, KeyContention, ConfigurationError) as error:
        return str(error)
    except OutboxError:
        return __version__
    return package.__version__


def erased_now() -> int:
    try:
        return outbox.erase("ada@x.example").emails
    except RowsLocked:
        return 0


def manage() -> None:
    details: EmailDetails | None = outbox.get(17)
    if details is not None:
        recipients: tuple[RecipientDetails, ...] = details.recipient_list
        attempts: tuple[AttemptDetails, ...] = details.attempt_list
        assert_type(details.status, Status)
        print(recipients, attempts)
    for summary in outbox.list(status=Status.FAILED, tag="order", limit=10):
        assert_type(summary, EmailSummary)
    corrections: Corrections = outbox.retry([1, 2])
    left: Unchanged
    for left in corrections.unchanged:
        assert_type(left.reason, Reason)
    print(outbox.resolve([1], "sent"), outbox.cancel(tag="order"), outbox.discarded)
    print(outbox.suppress("a@x.example", "by hand"), outbox.unsuppress("a@x.example"))
    entry: Suppression
    for entry in outbox.suppressed(after="a@x.example", limit=10):
        assert_type(entry.address, str)
    print(outbox.pause("bulk", by="ada"), outbox.resume())
    assert_type(outbox.paused(), tuple[Pause, ...])
    assert_type(outbox.suppress_many([("a@x.example", "left")]), Suppressions)
    assert_type(outbox.cancel_now([7], by="ada"), Corrections)
    assert_type(outbox.source(7), bytes | None)
    try:
        assert_type(outbox.send_again(7, by="ada", seen=12), Email)
    except SentAgain as refusal:
        print(refusal)
    assert_type(outbox.audit(email=7), tuple[AuditEntry, ...])
    counts: dict[Status, int] = outbox.counts("order")
    stats: Stats = outbox.stats()
    progress: Progress = outbox.progress("news")
    batch: BatchDetails
    for batch in progress.batches:
        assert_type(batch.rescue_seconds, float)
    servers: tuple[ServerStatus, ...] = stats.servers
    limited: tuple[RateLimited, ...] = stats.rate_limited
    health: Health = outbox.health(max_age=60)
    print(counts, servers, limited, health.healthy)


def measure() -> None:
    backlog: Backlog = outbox.backlog()
    found: Figures = outbox.figures(Period.DAY)
    points: tuple[FiguresPoint, ...] = found.points
    failures: tuple[FailureCount, ...] = found.failures
    times: TimeToAccepted = found.accepted_in
    fleet: Fleet = outbox.workers()
    workers: list[WorkerDetails] = [w for w in fleet.workers if w.state is WorkerState.IDLE]
    assert_type(outbox.metrics(), str)
    print(backlog.due, points, failures, times.p95, workers)
    if (health := outbox.watch()) is not None:
        outbox.watch_again(health)


def search() -> None:
    page: EmailPage = outbox.list(recipient="ada@x.example", since=NOON, limit=10)
    outbox.list(recipient="ada@x.example", after=page.next)
    problems: Problems = outbox.problems(limit=5)
    groups: tuple[Problem, ...] = problems.groups
    assert_type(outbox.index(), int)
    print(groups)


def act_on_all() -> None:
    plan: DryRun = outbox.dry_run(Action.RETRY, status="failed", domain="x.example")
    job: Job = outbox.start_job("retry", status="failed", domain="x.example", upto=plan.upto)
    assert_type(outbox.stop_job(job.id, by="ada"), bool)
    assert_type(outbox.resume_job(job.id), bool)
    assert_type(outbox.job(job.id), Job | None)
    assert_type(outbox.jobs(state=JobState.RUNNING), tuple[Job, ...])


def restore() -> None:
    restored: Restored = outbox.restored()
    held: tuple[HeldEmails, ...] = outbox.held()
    released: Released = outbox.release(tag="order")
    outbox.moved()
    print(restored.held, held, released.locked)


def forget(address: str) -> None:
    for one in outbox.export(address):
        if isinstance(one, ExportedEmail):
            message: MessageText | None = one.message
            print(message)
    erasure: Erasure = outbox.erase(address, by="ada")
    left: dict[int, Left] = erasure.left
    print(left, outbox.readmit(address))


@outbox_health_changed.connect
def alarm(app: Flask, *, healthy: bool, problems: tuple[str, ...]) -> None:
    print(app.name, healthy, problems)


@email_sent.connect
@email_failed.connect
@email_unknown.connect
def tell(app: Flask, ids: tuple[int, ...]) -> None:
    print(app.name, ids)


@outbox.preview("Order confirmation", auto_submitted=True)
def order_confirmation() -> Message:
    return Message("Your order", ["ada@x.example"])


@outbox.preview("News", to=("Ada", "ada@x.example"), fields=lambda _: {"name": "Ada"})
async def news() -> EmailMessage:
    return EmailMessage()


def test_order(app: Flask) -> None:
    with OutboxTester(app) as tester:
        replies: Replies = tester.replies
        replies.at("RCPT", 550, "5.1.1", to="ada@x.example", times=1)
        replies.hang_up_at("DOT")
        replies.clear()
        email: EnqueuedEmail = tester.assert_enqueued(
            count=2, to="ada@x.example", subject="Your order", html_contains="Thanks"
        )
        with tester.freeze(NOON) as moment:
            assert_type(moment, datetime)
        tester.freeze()
        tester.unfreeze()
        tester.travel(days=1)
        tester.travel_to(email.send_at or tester.now())
        deliveries: tuple[Delivery, ...] = tester.drain()
        tester.assert_nothing_enqueued(subject_contains="Order")
        print(deliveries, tester.emails(tag="order"))
