"""Celery's settings: broker, queues, acknowledgement, beat schedule. The table keeps the truth."""

from __future__ import annotations

import os

from outbox.worker import queues

# Broker. Every wait is bounded: a Redis that is silent must not hold a worker, or beat, for ever.
broker_url = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
broker_connection_retry_on_startup = True
broker_connection_max_retries = None  # for ever: Redis comes back
broker_transport_options = {
    "socket_connect_timeout": 2.0,
    "socket_timeout": 5.0,  # above 1 s: a worker's BRPOP blocks that long
    "socket_keepalive": True,
}

# Queues: sweeps apart from sends, so that a backlog of sends never starves a sweep.
task_queues = queues.QUEUES
worker_prefetch_multiplier = 1  # prefetched mail could not be overtaken by urgent mail
worker_disable_prefetch = True  # nor could a busy worker fetch it before one that has time (Redis)

# Acknowledgement: early. A task that dies with its worker is not needed: its mails' lease runs out.
task_acks_late = False
task_reject_on_worker_lost = False

# Messages carry ids and tokens, as JSON; nobody reads a result.
task_serializer = "json"
accept_content = ["json"]
task_ignore_result = True

# Beat is the guarantee; the nudge after a commit is the pace.
beat_schedule = queues.beat_schedule()
beat_scheduler = "outbox.worker.beat:SteadyScheduler"  # Celery's own stops when a clock is set back
timezone = "UTC"
