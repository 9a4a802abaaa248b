"""All that your `celeryconfig.py` imports from the outbox: queues, schedule, beat's scheduler."""

from .worker.process.beat import SteadyScheduler
from .worker.process.queues import QUEUES, beat_schedule

__all__ = ["QUEUES", "SteadyScheduler", "beat_schedule"]
