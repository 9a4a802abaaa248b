"""An email's whole way in an environment: what is installed for it, and the run of journey.py."""

from __future__ import annotations

from pathlib import Path

from tests.release.environments import Environment

JOURNEY = Path(__file__).with_name("journey.py")


def as_an_app_does(wheel: Path) -> tuple[str, ...]:
    """Return what an app installs that has the usual sessions and databases."""
    return (
        f"flask-mail-outbox[postgresql,mysql,opentelemetry] @ {wheel.as_uri()}",
        "flask-sqlalchemy",
        "sqlalchemy[asyncio]",
    )


def go(environment: Environment, folder: Path, database: str, broker: str) -> None:
    """Have an email go its way on SQLite and on `database`, and over a real worker."""
    both = f"sqlite:///{folder}/shop.db", database
    said = environment.run("python", JOURNEY, *both, "--broker", broker)
    assert said.splitlines()[-1] == "ok"
