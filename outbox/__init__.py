"""A transactional outbox for e-mail on Flask, SQLAlchemy and Celery."""

from .domain.config.settings import OnUnknown
from .domain.delivery.status import Status
from .domain.errors import (
    ConfigurationError,
    InvalidMessage,
    KeyConflict,
    KeyContention,
    OutboxError,
)
from .domain.priority import Priority
from .flask_ext.dropin.mail import OutboxMail
from .flask_ext.extension import Outbox
from .store.records import Email
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
