"""The metrics for Prometheus: a page of their own, or beside the app's own metrics."""

from .access import Access, bearer
from .collector import OutboxCollector
from .page import Metrics

__all__ = ["Access", "Metrics", "OutboxCollector", "bearer"]
