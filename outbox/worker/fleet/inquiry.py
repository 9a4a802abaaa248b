"""Tells who listens to our queues, by Celery's configuration and by the running workers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from celery import Celery
from kombu.connection import Connection

from ..broker.queues import DEFAULT_QUEUE, QUEUES, SEND_QUEUES, SWEEP_QUEUE
from .prefetching import DISABLE, can_be_disabled

Result = TypeVar("Result")

ANSWER = 1.0
"""Seconds in which workers answer. The whole time is waited: the number of workers is unknown."""

PATIENCE = 6.0
"""Seconds for the whole inquiry: a broker may accept a connection and then stay silent."""

_SOCKET = 3.0
"""Seconds for one socket operation. It is above the one second for which a Redis read blocks."""

SENDING = frozenset({SWEEP_QUEUE, *SEND_QUEUES.values()})
"""The queues without which email is not sent. Without the remaining queue nothing is purged."""

OURS = tuple(queue.name for queue in QUEUES if queue.name != DEFAULT_QUEUE)


HAS_FLASK_APP = "has_flask_app"
"""The attribute of our tasks by which a worker tells whether it knows where the emails are."""


class NoAnswer(Exception):
    """The broker cannot be asked; the text names it and says why."""


class Unreachable(NoAnswer):
    """No connection to the broker can be made, or it stays silent."""


class CannotSave(NoAnswer):
    """A Redis that cannot save its data refuses each command, as it is set by default."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """What a running worker says of itself; its command line may differ from the settings."""

    tasks: frozenset[str]
    has_flask_app: bool  # so far as it says: one of an older version does not
    pool: str  # as "module:class"
    concurrency: int  # tasks that it runs side by side
    prefetch: int  # tasks that it takes at once; 0 if it takes none before it has a free process


def forgotten(app: Celery) -> list[str]:
    """Return our queues that `task_queues` lacks, so that a worker without -Q ignores them."""
    return [name for name in OURS if name not in app.amqp.queues]


def unheard(listened: Mapping[str, Collection[str]]) -> list[str]:
    """Return our queues that none of these workers listens to."""
    heard = {name for names in listened.values() for name in names}
    return [name for name in OURS if name not in heard]


def broker_name(app: Celery) -> str:
    """Return the broker's URL without its password, for people."""
    try:
        connection = app.connection_for_write()
        return str(connection.as_uri(mask="**" if connection.password else ""))
    except Exception:  # noqa: BLE001  (any client: a URL that it cannot read may have a password)
        return "of broker_url"


def workers(app: Celery) -> dict[str, list[str]]:
    """Ask the running workers, and return the queues that each listens to. Raises NoAnswer.

    Where they answer to nobody, only the broker is reached, and none is returned.
    """
    if not workers_answer(app):
        return ask(app, lambda _: {})
    return ask(app, lambda connection: _queues(_inspect(app, connection)))


def workers_answer(app: Celery) -> bool:
    """Return whether the workers answer questions, as far as the settings tell."""
    return bool(app.conf.worker_enable_remote_control)


def running(app: Celery, names: Collection[str]) -> dict[str, Running]:
    """Ask these workers what they run, and how. Raises NoAnswer; one may have ended meanwhile."""
    found = list(names)
    limits = {"destination": found, "limit": len(found)}  # as soon as all have answered
    return ask(app, lambda connection: _details(app, _inspect(app, connection, **limits)))


def ask(app: Celery, question: Callable[[Connection], Result]) -> Result:
    """Ask over a connection to the broker, with bounded waits. Raises NoAnswer."""
    found: list[Result] = []
    failed: list[NoAnswer] = []

    def put() -> None:
        refusal: type[NoAnswer] = Unreachable
        fault = "cannot be reached"
        try:
            with app.connection_for_write(
                connect_timeout=ANSWER, transport_options=_bounded(str(app.conf.broker_write_url))
            ) as connection:
                connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
                refusal, fault = NoAnswer, "cannot be asked"
                found.append(question(connection))
        except Exception as error:  # noqa: BLE001  (any broker, any error)
            if _cannot_save(error):
                refusal, fault = CannotSave, "takes no task, because it cannot save its data"
            text = f"the broker {broker_name(app)} {fault} ({_kind(app, error)})"
            failed.append(refusal(text))

    # In a thread, which is left behind: some waits of a broker's client never end.
    asking = threading.Thread(target=put, name="outbox-fleet", daemon=True)
    try:
        asking.start()
    except RuntimeError:
        fault = "cannot be asked (this process can start no thread)"
        raise NoAnswer(f"the broker {broker_name(app)} {fault}") from None
    asking.join(PATIENCE)
    if failed:
        raise failed[0]
    if not found:
        raise Unreachable(f"the broker {broker_name(app)} did not answer within {PATIENCE:.0f} s")
    return found[0]


def _cannot_save(error: BaseException | None) -> bool:
    """Return whether this error, or the one that kombu has put it in the place of, says so."""
    while error is not None:
        if str(error).startswith("MISCONF"):
            return True
        error = error.__cause__ or error.__context__
    return False


def _kind(app: Celery, error: Exception) -> str:
    """Return what kind of error it is; for an unknown scheme, for which kombu raises a KeyError.

    Nothing else of the URL is told: it may hold a password.
    """
    scheme, separator, _ = str(app.conf.broker_write_url).partition("://")
    if isinstance(error, KeyError) and separator and scheme.isalpha():
        return f"Celery knows no broker with the scheme {scheme}://"
    return type(error).__name__


def _inspect(app: Celery, connection: Connection, **limits: Any) -> Any:
    return app.control.inspect(timeout=ANSWER, connection=connection, **limits)


def _queues(inspect: Any) -> dict[str, list[str]]:
    replies: dict[str, list[dict[str, Any]]] = inspect.active_queues() or {}
    return {name: [str(queue["name"]) for queue in queues] for name, queues in replies.items()}


def _details(app: Celery, inspect: Any) -> dict[str, Running]:
    tasks: dict[str, list[str]] = inspect.registered(HAS_FLASK_APP) or {}
    settings: dict[str, dict[str, Any]] = inspect.conf() or {}
    replies: dict[str, dict[str, Any]] = inspect.stats() or {}
    return {
        name: Running(
            tasks=frozenset(task.partition(" ")[0] for task in tasks[name]),
            has_flask_app=not any(f"{HAS_FLASK_APP}=False" in task for task in tasks[name]),
            pool=str(reply["pool"].get("implementation", "")),
            concurrency=int(reply["pool"].get("max-concurrency") or 1),
            prefetch=_prefetch(app, settings[name], reply),
        )
        for name, reply in replies.items()
        if name in tasks and name in settings and isinstance(reply.get("pool"), dict)
    }


def _prefetch(app: Celery, settings: dict[str, Any], reply: dict[str, Any]) -> int:
    found = reply.get("prefetch_count")  # of a worker that loses its broker it is a text
    # Over AMQP a worker ignores this setting, and so does each Celery before 5.6.
    is_disabled = can_be_disabled(app) and settings.get(DISABLE)
    return found if isinstance(found, int) and not is_disabled else 0


def _bounded(url: str) -> dict[str, Any]:
    scheme, _, _ = url.partition(":")
    if "redis" in scheme or "sentinel" in scheme:
        return {"socket_connect_timeout": ANSWER, "socket_timeout": _SOCKET, "max_retries": 1}
    return {"read_timeout": _SOCKET, "write_timeout": _SOCKET}
