"""A metric family: a name, and its samples by label. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a monitor may do with the numbers, in Prometheus' words."""

    COUNTER = "counter"  # take it as one that never falls; a restored backup is a restart
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One number. A histogram's samples have the names `…_bucket` and `…_count`."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """The samples of one metric."""

    name: str
    help: str
    kind: Kind
    samples: tuple[Sample, ...] = ()
