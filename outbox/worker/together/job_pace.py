"""How a process does jobs: by steps of which size, and which jobs it leaves for a while."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...domain.jobs.pace import FIRST


@dataclass(kw_only=True, slots=True)
class JobPace:
    """What the last steps have shown. The moments are on the process's clock."""

    size: int = FIRST  # emails that the next step changes
    looks_again_at: float = 0.0  # until then it does not look for jobs
    left_until: dict[int, float] = field(default_factory=dict)  # by jobs whose last step failed
