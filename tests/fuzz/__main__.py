"""Try the properties for as long as you like: `python -m tests.fuzz --minutes 30`.

Each source gets its share of the time. It prints how many inputs were tried from each, and of a
failure the shortest input that shows it; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import sys
import time
import traceback
from dataclasses import replace
from typing import Any

from tests.fuzz.campaign import Property, Tally, attempt
from tests.fuzz.sources import KINDS, fresh_database
from tests.support.servers.databases.postgres import Postgres

ROUND = 200
"""Inputs between two looks at the clock."""
HANG = 120.0
"""Seconds after which an input that comes to no end shows where it stands."""


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--only", choices=sorted(KINDS), action="append")
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    options = parser.parse_args()
    kinds = options.only or list(KINDS)
    sources = sum(len(KINDS[kind].examples) for kind in kinds)
    seconds = options.minutes * 60 / sources
    print(f"seed {options.seed}, {seconds:.0f} s for each source", flush=True)
    if options.database == "sqlite":
        return _all(kinds, seconds, options.seed, None)
    with Postgres(durable=False) as server:
        return _all(kinds, seconds, options.seed, server)


def _all(kinds: list[str], seconds: float, seed: int, server: Postgres | None) -> int:
    total = failures = 0
    for kind in kinds:
        with (
            fresh_database() as url,
            KINDS[kind].open(server.new_database() if server else url) as properties,
        ):
            for checked in properties:
                tally = _one(checked, seconds, seed)
                failed = " and FAILED" if tally.failed else ""
                print(f"{checked.source:<24}{tally.inputs:>10,} inputs{failed}", flush=True)
                total, failures = total + tally.inputs, failures + tally.failed
    print(f"{'all':<24}{total:>10,} inputs, {failures} sources failed")
    return 1 if failures else 0


def _one(checked: Property, seconds: float, seed: int) -> Tally:
    def holds(value: Any) -> None:
        faulthandler.dump_traceback_later(HANG, exit=True)
        checked.holds(value)

    tally, seeds, until = Tally(), random.Random(seed), time.monotonic() + seconds
    while time.monotonic() < until and not tally.failed:
        try:
            attempt(replace(checked, holds=holds), ROUND, seeds.randrange(2**32), tally)
        except Exception as failure:  # noqa: BLE001  (told, and the next source goes on)
            traceback.print_exception(failure)
    faulthandler.cancel_dump_traceback_later()
    return tally


if __name__ == "__main__":
    sys.exit(main())
