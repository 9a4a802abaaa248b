"""What your `celeryconfig.py` imports, and nothing else: queues, schedule and beat's scheduler."""

from .worker.process.beat import SteadyScheduler
from .worker.process.queues import QUEUES, beat_schedule

__all__ = ["QUEUES", "SteadyScheduler", "beat_schedule"]
