"""`flask --app webapp init-db`: brings the database to the tables of this code."""

from __future__ import annotations

import click
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from flask import current_app
from flask.cli import with_appcontext
from flask_migrate import upgrade
from sqlalchemy import inspect

from .extensions import db


@click.command("init-db")
@with_appcontext
def init_db() -> None:
    """Make or migrate the tables. Repeat it as you like, also in several processes at once.

    A database that newer code has migrated is left alone, so that older code can be rolled back to.
    """
    script = ScriptDirectory(current_app.extensions["migrate"].directory)
    known = {step.revision for step in script.walk_revisions()}
    if unknown := sorted(_revisions() - known):
        click.echo(f"The database is newer than this code ({', '.join(unknown)}): nothing is done.")
        return
    upgrade()
    click.echo(f"The database is ready: revision {script.get_current_head()}.")


def _revisions() -> set[str]:
    """Return the revisions that the database is at: one, or none if it is empty."""
    with db.engine.connect() as connection:
        revisions = set(MigrationContext.configure(connection).get_current_heads())
        if not revisions and inspect(connection).has_table("shop_product"):
            raise click.ClickException(
                "the tables were made without migrations; if they are those of this version,"
                " run `flask --app webapp db stamp head` once"
            )
    return revisions
