"""A transactional outbox for e-mail on Flask, SQLAlchemy and Celery."""

from .domain.errors import (
    ConfigurationError,
    InvalidMessage,
    KeyConflict,
    KeyContention,
    OutboxError,
)
from .domain.lifecycle import Status
from .domain.priority import Priority
from .domain.settings import OnUnknown
from .store.rows import Email
from .web.extension import Outbox
from .web.mail import OutboxMail
from .worker import tasks as _tasks  # registers the Celery tasks

__all__ = [
    "ConfigurationError",
    "Email",
    "InvalidMessage",
    "KeyConflict",
    "KeyContention",
    "OnUnknown",
    "Outbox",
    "OutboxError",
    "OutboxMail",
    "Priority",
    "Status",
]
del _tasks
