"""Enqueues so many emails in a process of its own, and prints the process's peak of memory."""

from __future__ import annotations

import sys

from benchmarks.measure import peak
from benchmarks.ours import ours


def main(url: str, broker: str, kind: str, rows: int) -> None:
    """Enqueue a newsletter, or different emails, in one transaction."""
    with ours(url, broker, 25) as made:
        if kind == "newsletter":
            made.newsletter(rows)
        else:
            made.enqueue(range(rows))
        print(peak())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
