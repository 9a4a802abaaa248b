"""For the tests of your app: what was enqueued, and what becomes of it. Needs no pytest."""

from .enqueued import Delivery, EnqueuedEmail
from .open_context import OpenContextWarning
from .replies import Replies
from .tester import OutboxTester

__all__ = ["Delivery", "EnqueuedEmail", "OpenContextWarning", "OutboxTester", "Replies"]
