"""Asks what other emails show about a server: those that wait for it, and those that it took."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from functools import partial

from ....domain.delivery.blame import Common, Traits
from ....domain.delivery.refusal_fingerprint import is_of_host
from ....domain.priority import Priority
from ....domain.scheduling.claim_plan import LaneKey
from ....store.control.blame.comparison import (
    contents_taken,
    doubts_in_a_row,
    just_taken,
    outsider_waits,
    slowest_taken,
    taken_elsewhere,
    taken_since,
)
from ....store.control.blame.other_senders import outsider_taken
from ....store.control.blame.own_refusals import are_own
from ...capacity.claimable import are_left
from ...process.retry_writes import until_written
from ...process.runtime import Runtime


class OtherEmails:
    """The emails of one server that are not of the batch. Each method asks the database anew.

    It is asked in trouble only.
    """

    def __init__(self, runtime: Runtime, server: str, lanes: Callable[[], Iterable[str]]) -> None:
        """`lanes` returns the lanes that may hold emails for this server."""
        self._runtime = runtime
        self._database = runtime.database
        self._server = server
        self._lanes = lanes

    def wait(self, is_outsider: Callable[[Traits], bool] = lambda _: True) -> bool:
        """Return whether an email is due that `is_outsider` says is unlike the halted ones."""
        ways: list[LaneKey] = [(lane, p) for lane in self._lanes() for p in Priority]
        return until_written(lambda: outsider_waits(self._database, ways, is_outsider))

    def are_left(self) -> bool:
        """Return whether an email could go, over any server, that no process has claimed."""
        return are_left(self._runtime)

    def just_taken(self, is_outsider: Callable[[Traits], bool], *, seconds: float) -> int | None:
        """Return the id of an email unlike the halted ones that the server took in this time."""
        look = partial(just_taken, self._database, self._server, is_outsider, seconds=seconds)
        return until_written(look)

    def sent_elsewhere(self, worker: str, *, seconds: float) -> bool:
        """Return whether another host than this worker's has sent over the server in this time."""
        host = worker.rpartition(":")[0]
        look = partial(taken_elsewhere, self._database, self._server, host, seconds)
        return until_written(look)

    def were_taken_since(self, moment: datetime) -> bool:
        """Return whether the server has taken an email since that moment."""
        return until_written(lambda: taken_since(self._database, self._server, moment))

    def doubts_in_a_row(self) -> int:
        """Return how many emails came to be in doubt since the server last judged one."""
        return until_written(lambda: doubts_in_a_row(self._database, self._server))

    def slowest_seconds(self) -> float:
        """Return the most seconds that the server took for an email lately; 0.0 if it took none."""
        return until_written(lambda: slowest_taken(self._database, self._server))

    def contents_taken(self, refusal: str, contents: Collection[int]) -> Collection[int]:
        """Return which of these contents do not explain why the server refuses them."""
        look = partial(contents_taken, self._database, self._server, refusal, contents)
        return until_written(look)

    def are_own(self, refusal: str, *, seen: int, any_fresh: bool, in_any_words: bool) -> bool:
        """Return whether the server refuses some emails like this just now, and takes others.

        So many emails that were taken behind such a refusal this batch has `seen`.
        """
        look = partial(are_own, self._database, self._server, refusal)
        return until_written(
            lambda: look(seen=seen, any_fresh=any_fresh, in_any_words=in_any_words)
        )

    def tell_of(self, refused: Common, refusal: str) -> bool:
        """Return whether another sender's email was taken lately, or waits and will tell.

        One that was taken before the refusals began does not excuse a server that blocks the host.
        """
        look = partial(outsider_taken, self._database, self._server, refused)
        taken = until_written(lambda: look(behind=refusal if is_of_host(refusal) else None))
        return taken or self.wait(lambda email: refused.lacked_by(email) > 0)
