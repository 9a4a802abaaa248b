"""How long finished emails stay in the table, by the status in which they ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..delivery.status import FINISHED, Status
from ..errors import ConfigurationError
from .typed_values import DAY, MOST, as_kind

OTHER = "other"
"""The key for the statuses that the mapping does not name."""
_DEFAULT = 30 * DAY


@dataclass(frozen=True, kw_only=True, slots=True)
class Retention:
    """The age in seconds at which an email of each finished status is removed."""

    ages: Mapping[Status, float]

    @classmethod
    def of_all(cls, seconds: float) -> Retention:
        """Return one age for every finished status. A negative one reaches into the future."""
        return cls(ages=dict.fromkeys(sorted(FINISHED), min(float(MOST), seconds)))

    def __str__(self) -> str:
        """Return the setting's value: one number if all ages are the same."""
        same = len(set(self.ages.values())) == 1
        return str(next(iter(self.ages.values())) if same else dict(self.ages))


DEFAULT = Retention.of_all(_DEFAULT)


def read_retention(key: str, value: Any) -> Retention:
    """Read a number of seconds, or a mapping with seconds by status.

    A status that the mapping does not name has the age of "other", or 30 days without that key.
    Raises ConfigurationError.
    """
    if not isinstance(value, Mapping):
        return Retention.of_all(_seconds(key, value))
    known = [*sorted(FINISHED), OTHER]
    for name in value:
        if name not in known:
            raise ConfigurationError(f"{key} must have only the keys {', '.join(known)}")
    ages = {name: _seconds(f'{key}["{name}"]', age) for name, age in value.items()}
    rest = ages.get(OTHER, _DEFAULT)
    return Retention(ages={status: ages.get(status, rest) for status in sorted(FINISHED)})


def read_body_retention(key: str, value: Any) -> float | None:
    """Read a number of seconds, or None: a body stays as long as its email."""
    return None if value is None else _seconds(key, value)


def _seconds(key: str, value: Any) -> float:
    found = as_kind(key, value, float)
    if not found >= 0.0:  # also refuses NaN, which compares false with everything
        raise ConfigurationError(f"{key} must be at least 0.0")
    if found > MOST:
        raise ConfigurationError(f"{key} must be at most {MOST}")
    return float(found)
