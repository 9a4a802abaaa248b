"""What only PostgreSQL has."""

from __future__ import annotations

from .table import Table
from .trial import Trial

CASES = Table()


@CASES.mistake(
    "a transaction that stays open, so that no vacuum removes dead rows",
    check="outbox_counter has 60000 dead rows beside 0 living ones",
)
def _(trial: Trial) -> None:
    app = trial.app()
    with app.app_context(), trial.db.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE outbox_counter SET (autovacuum_enabled = off)")
        connection.exec_driver_sql(
            "INSERT INTO outbox_counter SELECT n::text, n FROM generate_series(1, 60000) AS n"
        )
        connection.exec_driver_sql("DELETE FROM outbox_counter")
        connection.exec_driver_sql("SELECT pg_stat_force_next_flush()")
