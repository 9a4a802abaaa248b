"""A transactional outbox for e-mail on Flask, SQLAlchemy and Celery."""

from .domain.config.settings import OnUnknown
from .domain.delivery.status import Status
from .domain.errors import (
    ConfigurationError,
    InvalidMessage,
    KeyConflict,
    KeyContention,
    OutboxError,
    RowsLocked,
    SentAgain,
)
from .domain.figures.figures import FailureCount, Figures, FiguresPoint, TimeToAccepted
from .domain.figures.spans import Period
from .domain.fleet import WorkerState
from .domain.jobs.order import Action, JobState
from .domain.priority import Priority
from .domain.version import __version__
from .flask_ext.alarm.health_signal import outbox_health_changed
from .flask_ext.dropin.mail import OutboxMail
from .flask_ext.extension import Outbox
from .flask_ext.jobs.starting import DryRun
from .flask_ext.management.privacy.erase import Erasure, Left
from .flask_ext.management.privacy.export import ExportedEmail
from .flask_ext.management.privacy.message import MessageText
from .flask_ext.management.results import (
    Corrections,
    Fleet,
    Health,
    Reason,
    Suppressions,
    Unchanged,
    WorkerDetails,
)
from .flask_ext.restore.holding import Released, Restored
from .store.instance.hold import HeldEmails
from .store.records import Email
from .store.report_records import (
    AttemptDetails,
    AuditEntry,
    Backlog,
    BatchDetails,
    EmailDetails,
    EmailPage,
    EmailSummary,
    Job,
    Pause,
    Problem,
    Problems,
    Progress,
    RateLimited,
    RecipientDetails,
    ServerStatus,
    Stats,
    Suppression,
)
from .worker import tasks as _tasks  # the import registers the Celery tasks
from .worker.broker import connection_loss as _connection_loss  # and a worker that loses its broker
from .worker.broker import event_connection as _event_connection  # and sends events over it
from .worker.broker import prefetch_restored as _prefetch_restored  # and has it back
from .worker.email_signals import email_failed, email_sent, email_unknown
from .worker.setup import worker_start as _worker_start  # and what a worker does at its start

__all__ = [
    "Action",
    "AttemptDetails",
    "AuditEntry",
    "Backlog",
    "BatchDetails",
    "ConfigurationError",
    "Corrections",
    "DryRun",
    "Email",
    "EmailDetails",
    "EmailPage",
    "EmailSummary",
    "Erasure",
    "ExportedEmail",
    "FailureCount",
    "Figures",
    "FiguresPoint",
    "Fleet",
    "Health",
    "HeldEmails",
    "InvalidMessage",
    "Job",
    "JobState",
    "KeyConflict",
    "KeyContention",
    "Left",
    "MessageText",
    "OnUnknown",
    "Outbox",
    "OutboxError",
    "OutboxMail",
    "Pause",
    "Period",
    "Priority",
    "Problem",
    "Problems",
    "Progress",
    "RateLimited",
    "Reason",
    "RecipientDetails",
    "Released",
    "Restored",
    "RowsLocked",
    "SentAgain",
    "ServerStatus",
    "Stats",
    "Status",
    "Suppression",
    "Suppressions",
    "TimeToAccepted",
    "Unchanged",
    "WorkerDetails",
    "WorkerState",
    "__version__",
    "email_failed",
    "email_sent",
    "email_unknown",
    "outbox_health_changed",
]
del _connection_loss, _event_connection, _prefetch_restored, _tasks, _worker_start
