"""Celery's settings: broker, queues, acknowledgement, beat schedule. The table keeps the truth."""

from __future__ import annotations

import os

from outbox import celery_config

# Broker: Redis, or RabbitMQ with amqp://… Every wait is bounded, so that a silent broker never
# holds a worker or beat for ever. Each transport ignores the other one's options.
broker_url = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
broker_connection_retry_on_startup = True
broker_connection_max_retries = None  # for ever: the broker comes back
broker_transport_options = {
    "socket_connect_timeout": 2.0,
    "socket_timeout": 5.0,  # above 1 s: a worker's BRPOP blocks that long
    "socket_keepalive": True,
    "read_timeout": 5.0,
    "write_timeout": 5.0,
}

# Queues: sweeps apart from sends, so that a backlog of sends never starves a sweep.
task_queues = celery_config.QUEUES
# A worker takes no message that it has no process for. Otherwise a busy worker would keep email
# from a free one, and urgent email would wait behind it. With Redis this is a setting. With AMQP it
# follows from late acknowledgement, where a running task counts as its process's one message.
_amqp = broker_url.startswith(("amqp", "pyamqp"))
worker_prefetch_multiplier = 1
worker_disable_prefetch = not _amqp

# Acknowledgement: early with Redis. A task that dies with its worker need not come again, because
# its emails' lease runs out. If it does come again, its token is worthless.
task_acks_late = _amqp
task_reject_on_worker_lost = False

# Messages carry tokens, as JSON, and no result is read.
task_serializer = "json"
accept_content = ["json"]
task_ignore_result = True

# Beat guarantees the sweeps; the nudge after a commit makes them quick.
beat_schedule = celery_config.beat_schedule()
# Celery's own scheduler stops when a clock is set back.
beat_scheduler = "outbox.celery_config:SteadyScheduler"
timezone = "UTC"
