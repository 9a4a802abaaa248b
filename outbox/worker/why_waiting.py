"""Tells why an email is not sent yet, by the rules by which a sweep passes it over."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection

from ..domain.counted import counted
from ..domain.delivery.halt_reason import CERTIFICATE_REMEDY, is_unverified
from ..domain.delivery.status import LEASED, Status
from ..domain.header.address import suppression_key
from ..domain.scheduling.lanes import route_of_lane
from ..store.control import beat
from ..store.control.barring.barred import barred_among
from ..store.control.pause import EVERYTHING, paused, scope_of
from ..store.control.rate_limits import rate_limited
from ..store.due_times import HELD
from ..store.instance.examine import look_on
from ..store.queries.server_status import server_statuses
from ..store.queries.waiting_reasons import batch_of, used_slots, waiting_email
from ..store.report_records import BatchDetails, EmailDetails, ServerStatus
from .process.runtime import Runtime


def why_waiting(connection: Connection, runtime: Runtime, email: EmailDetails) -> tuple[str, ...]:
    """Return why the email waits, in words; nothing if it has ended."""
    if email.status is not Status.PENDING and email.status not in LEASED:
        return ()
    return tuple(_Waiting(connection, runtime, email).reasons())


class _Waiting:
    """One email that has not ended, and what could hold it."""

    def __init__(self, connection: Connection, runtime: Runtime, email: EmailDetails) -> None:
        self._connection, self._runtime, self._email = connection, runtime, email
        self._database = runtime.database
        self._row = waiting_email(connection, self._database, email.id)

    def reasons(self) -> Iterator[str]:
        if (token := self._row.token) is not None:
            yield from self._leased(token)
            return
        now, due = self._row.now, self._email.due_at
        later = due is not None and due > now
        if due == HELD:
            yield f"held since a restore: flask outbox release {self._email.id} lets it go"
        elif due is not None and later:
            yield self._put_off(due)
        name = self._runtime.settings.instance
        if refusal := look_on(self._connection, self._database, name).refusal:
            yield refusal
        yield from self._held_back()
        if later or self._runtime.sending_is_off():
            return
        yield from list(self._not_claimed()) or [self._next_sweep()]

    def _leased(self, token: UUID) -> Iterator[str]:
        """Tell which worker has the email's batch, or that none has taken it."""
        term = self._runtime.settings.lease
        batch = batch_of(self._connection, self._database, token, lease_seconds=term)
        if batch is None:
            return
        back = until_rescue(batch)
        if batch.worker is None:
            yield f"no worker has taken its batch yet; it goes back {back}"
        elif batch.is_silent:
            yield f"its worker {batch.worker} is silent; it is rescued {back}"
        elif batch.awaits_reply:
            yield f"its content has left, and the worker {batch.worker} waits for the reply"
        else:
            yield f"the worker {batch.worker} has its batch"

    def _put_off(self, due: datetime) -> str:
        if due == self._email.send_at:
            return f"scheduled: its send_at is {_second(due)}"
        if self._email.unknown_count:
            return f"in doubt, and sent again from {_second(due)} on"
        if not self._email.attempts:
            return f"put off until {_second(due)}; no attempt was charged"
        return f"backoff until {_second(due)}, after {counted(self._email.attempts, 'attempt')}"

    def _held_back(self) -> Iterator[str]:
        """Tell what a person has stopped."""
        if self._runtime.sending_is_off():
            yield "MAIL_SUPPRESS_SEND is on, so nothing is sent"
        for scope in paused(self._connection, self._database):
            if scope in (EVERYTHING, scope_of(self._email.priority)):
                yield f"paused: {scope} (flask outbox resume {scope})"
        if self._is_suppressed():
            yield (
                "its recipients are on the suppression list, or erased: when it is due it ends"
                " suppressed"
            )

    def _is_suppressed(self) -> bool:
        """Whether no recipient who may still get the email may get one."""
        waiting = {
            suppression_key(one.address)
            for one in self._email.recipient_list
            if one.status not in (Status.SENT, Status.FAILED)
        }
        barred = barred_among(self._connection, self._database, waiting)
        return len(barred) == len(waiting) > 0

    def _not_claimed(self) -> Iterator[str]:
        """Tell why a sweep does not claim the email, which is due."""
        lane, runtime = self._row.lane, self._runtime
        known = {one.name: one for one in runtime.routes.servers_of(route_of_lane(lane))}
        found = server_statuses(self._connection, self._database, list(known))
        blocked = [_blocked(one, known[one.server].connections) for one in found if one.configured]
        if all(blocked):
            yield from filter(None, blocked)
        drawn_on = runtime.lanes.buckets(lane)
        for rate in rate_limited(self._connection, self._database):
            if rate["bucket"] in drawn_on:
                yield f"the rate {rate['bucket']} is used up for {rate['opens_in']:.0f} s"
        slots = runtime.slots()
        if used_slots(self._connection, self._database) >= slots:
            all_of_them = f"{counted(slots, 'slot')} in all (flask outbox workers)"
            yield f"{all_of_them}, and each has a batch: it waits for the end of one"

    def _next_sweep(self) -> str:
        seen = beat.age(self._connection, self._database)
        text = "was never seen" if seen is None else f"was seen {seen:.0f} s ago"
        return f"due, and waits for the next sweep (beat {text})"


def _blocked(server: ServerStatus, cap: int | None) -> str:
    """Return why nothing may go over the server, or ""."""
    if server.next_probe is not None:
        probe = _second(server.next_probe)
        remedy = f" ({CERTIFICATE_REMEDY})" if is_unverified(server.reason) else ""
        return f"server {server.server} is halted, next probe {probe}: {server.reason}{remedy}"
    if cap is not None and server.connections >= cap:
        return f"server {server.server} has no connection free, of {cap}"
    return ""


def _second(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S} UTC"


def until_rescue(batch: BatchDetails) -> str:
    """Return when the emails of a batch that nobody has go back: a sweep has to judge them."""
    if batch.rescue_seconds > 0:
        return f"in {batch.rescue_seconds:.0f} s"
    return "with the next sweep, and none comes while the broker or all workers are away"
