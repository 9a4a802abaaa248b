"""The shop's Celery settings. `outbox.celery_config.configure` adds queues and schedule to them."""

from __future__ import annotations

import os

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

# A worker takes no message that it has no process for. Otherwise a busy worker would keep email
# from a free one, and urgent email would wait behind it. With Redis the second line does this. With
# AMQP it follows from the first one: the outbox's tasks are acknowledged late there.
worker_prefetch_multiplier = 1
worker_disable_prefetch = not broker_url.startswith(("amqp", "pyamqp"))

# Messages carry tokens, as JSON, and no result is read.
task_serializer = "json"
accept_content = ["json"]
task_ignore_result = True

timezone = "UTC"
