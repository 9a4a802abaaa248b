"""All that your Celery set-up imports from the outbox: `configure`, or the settings one by one."""

from .worker.process.beat import SteadyScheduler
from .worker.process.queues import QUEUES, beat_schedule, queues
from .worker.setup.configure import configure

__all__ = ["QUEUES", "SteadyScheduler", "beat_schedule", "configure", "queues"]
