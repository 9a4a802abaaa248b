"""All that your Celery set-up imports from the outbox: `configure`, or the settings one by one."""

from .worker.broker.queues import QUEUES, beat_schedule, queues
from .worker.process.steady_scheduler import SteadyScheduler
from .worker.setup.configure import configure

__all__ = ["QUEUES", "SteadyScheduler", "beat_schedule", "configure", "queues"]
