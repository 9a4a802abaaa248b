"""The machine: any interleaving of what the web, sweeps, workers, people and the clock do."""

from __future__ import annotations

from collections import Counter
from uuid import UUID, uuid4

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from outbox.domain.delivery.status import Status
from outbox.domain.priority import Priority
from outbox.store.control import lease, pause
from outbox.store.queries.sweep.sweep_snapshot import read_snapshot
from outbox.store.records import ClaimedEmail
from outbox.store.rollup.fold import fold
from outbox.store.transitions import expire, rescue, resolve, retry
from outbox.store.transitions.claim import guarded_statement
from outbox.store.transitions.start import start
from outbox.store.transitions.window import advance, advance_in_steps, finish
from tests.integration.machine.model import JITTER, LEASE, OPEN, UNSENT, Mail
from tests.integration.machine.tables import Worker, committed, in_order, results
from tests.integration.machine.transactions import FEW, KEYS, TAGS, Transactions, alone, apart
from tests.support.shop.shop import WORKER
from tests.support.shop.steps import purged
from tests.support.shop.steps.claims import claim_batch
from tests.support.shop.watching.recount import counted, log

WINDOW = 2
STUCK = {Status.UNKNOWN, Status.FAILED}
VERDICTS = st.lists(
    st.sampled_from(["sent", "sent", "retry", "fail", "unknown", "unsent", "halt"]),
    min_size=WINDOW,
    max_size=WINDOW,
)
PICK = st.integers(0, 4)  # the newest is 0
LATER = st.sampled_from([1.0, 20.0, LEASE + 1, LEASE + 1, 700.0, 4000.0])

claimed = precondition(lambda machine: machine.tokens)
working = precondition(lambda machine: machine.workers)
stocked = precondition(lambda machine: machine.model.emails)


class Machine(Transactions):
    """Each step is made on the tables and on the model; then both must be the same."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens: list[UUID] = []  # of every claim that ever was
        self.workers: list[Worker] = []
        self.log: dict[int, tuple[object, ...]] = {}  # each attempt that ever was in the log

    # ---- sweeps

    @apart
    @rule(limit=st.integers(1, 5))
    def sweep(self, limit: int) -> None:
        self.clock.settle()
        database, model = self.shop.database, self.model
        due = model.due()
        lanes, servers = self.shop.runtime.lanes, self.shop.runtime.servers
        state = read_snapshot(database, lanes, servers, limit=1000)
        seen = sum(found.emails for found in state.due.values())
        assert seen == (0 if model.paused else len(due))
        assert state.lapsed == any(model.past(lease.expires) for lease in model.leases.values())
        if not seen:
            return
        wanted = model.claimable(in_order(self.shop, due), limit)
        made = claim_batch(database, Priority.NORMAL, limit, lease_seconds=LEASE)
        rows = committed(self.shop).emails
        for one, ids in zip(made, wanted, strict=True):
            assert one.token not in self.tokens
            assert one.emails == len(ids)
            assert {i for i, row in rows.items() if row[1] == one.token} == ids
            model.claim(one.token, ids)
        self.tokens += [one.token for one in made]

    @apart
    @rule(limit=FEW, size=st.integers(0, WINDOW))
    def set_out(self, limit: int, size: int) -> None:
        """The usual way: a sweep, a task that comes at once, and its first window."""
        before = len(self.tokens)
        self.sweep(limit)
        if len(self.tokens) > before:
            self.start(0)
            self.advance(0, [], size, in_steps=False)

    @apart
    @rule(
        which=st.sampled_from(
            ["rescue", "expire", "purge", "fold", "stale", "pause", "resume", "resume"]
        )
    )
    def keep_house(self, which: str) -> None:
        self.clock.settle()
        if which == "rescue":
            self._rescue()
        elif which == "expire":
            expire.expire(self.shop.database)
            self.model.expire()
        elif which == "purge":
            self.clock.later(600.0)
            self._purge(500.0)
        elif which == "fold":
            fold(self.shop.database)
        elif which == "stale":
            self._claim_what_others_have()
        else:
            self._pause(stop=which == "pause")

    @apart
    @working
    @rule(pick=PICK, dies=st.booleans())
    def lose(self, pick: int, dies: bool) -> None:
        """A worker dies, or sleeps: its lease runs out, and sweeps judge it."""
        worker = self.workers[-1 - pick % len(self.workers)]
        if not worker.window:
            self.advance(pick, [], WINDOW, in_steps=False)
        if dies:
            self.workers.remove(worker)
        self._leases_run_out()

    def _leases_run_out(self) -> None:
        for _ in range(2):  # first they are suspected
            self.clock.later(LEASE + 1)
            self.clock.settle()
            self._rescue()

    def _rescue(self) -> None:
        made = rescue.rescue(self.shop.database, self.shop.runtime.settings, random=lambda: JITTER)
        assert made.leases == self.model.rescue()

    def _purge(self, older_than: float) -> None:
        finished = [mail.finished for mail in self.model.emails.values()]
        self.clock.settle(*(moment + older_than for moment in finished if moment is not None))
        made = purged.removed(self.shop, older_than)
        assert made == self.model.purge(older_than)

    def _pause(self, *, stop: bool) -> None:
        step = pause.pause if stop else pause.resume
        changed = self.shop.database.run(lambda c: step(c, self.shop.database, None))
        assert changed == (self.model.paused != stop)
        self.model.paused = stop

    # ---- workers

    @apart
    @claimed
    @rule(pick=PICK)
    def start(self, pick: int) -> None:
        """A task comes: for the first time, twice, or late."""
        token = self.tokens[-1 - pick % len(self.tokens)]
        batch = start(self.shop.database, token, lease_seconds=LEASE, worker=WORKER)
        assert (batch is not None) == self.model.start(token)
        if batch is not None:
            assert {m.id for m in batch.emails} == {m.id for m in self.model.held(token)}
            self.workers.append(Worker(token=token, left={m.id: m for m in batch.emails}))

    @apart
    @claimed
    @rule(pick=PICK)
    def renew(self, pick: int) -> None:
        token = self.tokens[-1 - pick % len(self.tokens)]
        renewal = lease.renew(self.shop.database, [token], lease_seconds=LEASE)
        holds = self.model.renew(token)
        assert (token in renewal.renewed, token in renewal.lost) == (holds, not holds)

    @apart
    @working
    @rule(pick=PICK, verdicts=VERDICTS, size=st.integers(0, WINDOW), in_steps=st.booleans())
    def advance(self, pick: int, verdicts: list[str], size: int, in_steps: bool) -> None:
        """A worker, stale or not, records its window and opens the next."""
        self.clock.settle()
        worker = self.workers[-1 - pick % len(self.workers)]
        entries = results(self._judged(worker, verdicts))
        following = list(worker.left)[:size]
        write = advance_in_steps if in_steps else advance
        progress = write(self.shop.database, worker.token, entries, following, worker=WORKER)
        opened = progress.opened
        assert not progress.locked
        assert opened == self.model.open(worker.token, following)
        worker.window = {i: worker.left[i] for i in opened}
        worker.left = {i: mail for i, mail in worker.left.items() if i not in following}

    @apart
    @working
    @rule(pick=PICK, verdicts=VERDICTS)
    def finish(self, pick: int, verdicts: list[str]) -> None:
        self.clock.settle()
        worker = self.workers.pop(-1 - pick % len(self.workers))
        entries = results(self._judged(worker, verdicts))
        finish(self.shop.database, worker.token, entries, worker=WORKER)
        self.model.finish(worker.token)

    def _judged(self, worker: Worker, verdicts: list[str]) -> list[tuple[ClaimedEmail, str]]:
        judged = list(zip(worker.window.values(), verdicts, strict=False))
        for waiting, verdict in judged:
            # A copy that is told of after a person's word was out before it, and no lie of ours.
            mail = None if waiting.id in worker.decided else self.model.emails.get(waiting.id)
            if mail is not None and verdict in ("sent", "unknown"):
                mail.copies += 1
            self.model.record(worker.token, waiting.id, verdict)
        worker.window = {}
        return judged

    @apart
    @working
    @rule(pick=PICK, verdicts=VERDICTS)
    def forge(self, pick: int, verdicts: list[str]) -> None:
        """Results come of emails that are not open, and under a token that never was."""
        worker = self.workers[-1 - pick % len(self.workers)]
        entries = results(list(zip(worker.window.values(), verdicts, strict=False)))
        mine = list(zip(worker.left.values(), verdicts, strict=False))
        advance(self.shop.database, worker.token, results(mine), [], worker=WORKER)
        token, ids = uuid4(), list(worker.left)
        assert not advance(self.shop.database, token, entries, ids, worker=WORKER).opened
        finish(self.shop.database, token, entries, worker=WORKER)

    def _claim_what_others_have(self) -> None:
        """What was seen to be due long ago is claimed only if it still waits; then rolled back."""
        database = self.shop.database
        waiting = [m.id for m in self.model.emails.values() if m.status is Status.PENDING]
        with self.shop.engine.connect() as connection:
            stale = guarded_statement(database.tables, list(self.model.emails), uuid4())
            assert connection.execute(stale).rowcount == len(waiting)
            connection.rollback()

    # ---- people

    @alone
    @rule(key=KEYS, tag=TAGS, pick=PICK)
    def cancel(self, key: str | None, tag: str | None, pick: int) -> None:
        emails = sorted(self.model.emails.values(), key=lambda m: (-m.unknown_count, m.id))
        chosen: dict[str, object] = {"id": emails[pick % len(emails)].id if emails else 1}
        if key or tag:
            chosen = {"key": key} if key else {"tag": tag}
        ((name, value),) = chosen.items()
        with self.shop.session() as session:
            count = self.shop.outbox.cancel(session=session, **chosen)  # type: ignore[arg-type]
            session.commit()
        assert count == self.model.cancel(lambda mail: getattr(mail, name) == value)

    @apart
    @stocked
    @rule(pick=PICK, outcome=st.sampled_from([Status.SENT, Status.FAILED, Status.PENDING]))
    def decide(self, pick: int, outcome: Status) -> None:
        """A person retries an email, or says what became of it."""
        emails = sorted(self.model.emails.values(), key=lambda m: (m.status not in STUCK, m.id))
        chosen, database = emails[pick % len(emails)].id, self.shop.database
        if outcome is Status.PENDING:
            made = len(database.run(lambda c: retry.retry(c, database, [chosen])))
            assert made == self.model.retry(chosen)
        else:
            settled = database.run(lambda c: resolve.resolve(c, database, [chosen], outcome))
            made = len(settled)
            assert made == self.model.resolve(chosen, outcome)
        if made:
            for worker in self.workers:
                worker.decided.add(chosen)

    @rule(seconds=LATER)
    def later(self, seconds: float) -> None:
        self.clock.later(seconds)

    # ---- what holds after every step

    @invariant()
    def the_table_is_the_models(self) -> None:
        """An email is there if its transaction committed; a stale token has changed nothing."""
        tables, model = committed(self.shop), self.model
        assert tables.emails == {i: mail.row() for i, mail in model.emails.items()}
        assert tables.leases == {
            token: (lease.started, lease.suspected is not None)
            for token, lease in model.leases.items()
        }
        assert tables.customers == self.customers
        assert tables.looked_up == tables.emails.keys()
        self.see(tables)

    @invariant()
    def the_promise_holds(self) -> None:
        emails = list(self.model.emails.values())
        assert all(_is_honest(mail) for mail in emails)
        assert {mail.token for mail in emails if mail.status in OPEN} <= set(self.model.leases)
        sending = Counter(mail.token for mail in emails if mail.status is Status.SENDING)
        assert max(sending.values(), default=0) <= WINDOW

    @invariant()
    def each_attempt_was_counted_once(self) -> None:
        """The counts stay, also those of attempts that a purge has removed."""
        self.log |= log(self.shop.engine, self.shop.tables)
        assert counted(self.shop.engine, self.shop.tables) == Counter(self.log.values())


def _is_honest(mail: Mail) -> bool:
    """No copy is untold, and no email of which one may be out ends as unsent."""
    bounded = mail.copies <= 1 + mail.declared
    if mail.hold:
        bounded = mail.copies <= 1 + mail.retries
    return bounded and not (mail.status in UNSENT and (mail.copies or mail.unknown_count))
