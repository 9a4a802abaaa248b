"""The metrics beside an app's own, in a registry of the package prometheus_client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from flask import Flask

from ..domain.metrics.families import Family, Kind
from ..flask_ext.app.engines import asked_of
from ..flask_ext.app.state import state_of
from ..flask_ext.management.metrics import families

if TYPE_CHECKING:
    from prometheus_client import Metric

_TOTAL, _COUNT = "_total", "_count"


class OutboxCollector:
    """Reads the metrics at each scrape, for apps that have a page of metrics already::

        REGISTRY.register(OutboxCollector(app))

    It needs the extra `metrics`. With prometheus_client's multiprocess mode, register it at the
    registry that the page makes for the MultiProcessCollector.
    """

    def __init__(self, app: Flask) -> None:
        self._app = app

    def describe(self) -> list[Metric]:
        """Return nothing: then a registry does not ask the database when it is made."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now.

        The end of a context of the app would end the caller's session, where sessions belong to
        threads.
        """
        yield from map(_metric, asked_of(self._app, lambda: families(state_of().runtime)))


def _metric(family: Family) -> Metric:
    from prometheus_client import Metric  # only who collects needs the package

    name = family.name
    if family.kind is Kind.COUNTER:
        name = name.removesuffix(_TOTAL)  # the package adds it again
    metric = Metric(name, family.help, family.kind.value)
    for sample in family.samples:
        # Readers of OpenMetrics refuse a count without a sum. The last bucket tells the same.
        if family.kind is Kind.HISTOGRAM and sample.name.endswith(_COUNT):
            continue
        metric.add_sample(sample.name, dict(sample.labels), sample.value)
    return metric
