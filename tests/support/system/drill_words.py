"""The words by which seven failures are told: those of the drill, and of its page in the docs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Words:
    """How a failure is told; what differs from time to time is left out between the parts."""

    overview: tuple[str, ...]
    check: tuple[str, ...]


BEAT = Words(
    overview=("beat@", " is dead: it was seen ", "start one (celery -A yourapp beat)"),
    check=("error  beat@", " is dead: it was seen ", "start one (celery -A yourapp beat)"),
)
QUEUE = Words(
    overview=(
        "no living worker listens to outbox.normal, outbox.bulk",
        "start a worker (celery -A yourapp worker), or one with -Q outbox.normal,outbox.bulk",
    ),
    check=(
        "error  of the workers that run, none listens to outbox.normal, outbox.bulk",
        "or start a worker with -Q outbox.normal,outbox.bulk",
    ),
)
BROKER = Words(
    overview=(
        "no worker has got a task for ",
        "the broker is away, or they have different ones: start it, or mend broker_url",
        "until then emails wait, and none is lost",
    ),
    check=(
        "error  the broker redis://",
        "cannot be reached",
        "start it, or mend broker_url; until then emails wait, and none is lost",
    ),
)
PASSWORD = Words(
    overview=(
        "ALERT: ",
        " is halted since ",
        "auth: 535 ",
        "mend its user name or password, and restart the workers: they try it at once",
    ),
    check=(
        "error  ALERT: ",
        " is halted since ",
        "auth: 535 ",
        "mend its user name or password, and restart the workers: they try it at once",
    ),
)
THROTTLE = Words(
    overview=(
        " is halted since ",
        "it throttles: no email is lost or charged, and it is tried again by itself; lower its rate"
        " if it stays so",
    ),
    check=(
        "warn   ",
        " is halted since ",
        "it throttles: no email is lost or charged, and it is tried again by itself; lower its rate"
        " if it stays so",
    ),
)
POISON = Words(
    overview=("email ", " was with 2 workers that were lost: after one more it ends unknown"),
    check=("warn   email ", " was with 2 workers that were lost: after one more it ends unknown"),
)
SETTLE = Words(
    overview=("workers that were lost: see whether it went out, and settle it",),
    check=("workers that were lost: see whether it went out, and settle it",),
)
RESTORED = Words(
    overview=(
        "nothing is sent: these tables were last used in another database",
        "if it is a copy or a restored backup, run `flask outbox restored`, which holds what waits",
    ),
    check=(
        "error  nothing is sent: these tables were last used in another database",
        "if it is a copy or a restored backup, run `flask outbox restored`, which holds what waits",
    ),
)
HELD = Words(
    overview=("held since a restore",),
    check=("held since a restore (flask outbox held, flask outbox release)",),
)


ALL = (BEAT, QUEUE, BROKER, PASSWORD, THROTTLE, POISON, SETTLE, RESTORED, HELD)
