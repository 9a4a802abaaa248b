"""The form of a case: a mistake, the code that makes it, and the words by which it is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .trial import Trial

Make = Callable[[Trial], object]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One mistake."""

    mistake: str
    make: Make
    told: dict[str, str]
    """The words by place: "exception", "log", "start" (a worker's log), "check", "health"."""


class Table(list[Case]):
    """The cases of one subject."""

    def mistake(self, mistake: str, **told: str) -> Callable[[Make], Make]:
        """Add a mistake: the function makes it, and each of these places says these words."""

        def add(make: Make) -> Make:
            self.append(Case(mistake=mistake, make=make, told=told))
            return make

        return add
