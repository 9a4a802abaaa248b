"""What the commands of `flask outbox` share: the app's outbox, its database, and arguments."""

from __future__ import annotations

from functools import wraps
from getpass import getuser
from math import isnan
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click
from flask.cli import ScriptInfo, with_appcontext
from sqlalchemy.exc import SQLAlchemyError

from ...domain.config.enqueue_options import MAX_ID, check_name
from ...domain.counted import counted
from ...domain.errors import ConfigurationError, InvalidMessage, RowsLocked
from ...store.bounded_waits import bounded_reads, run_bounded
from ...store.connection.error_codes import is_lock_timeout
from ...store.instance.examine import look
from ...store.queries.inspect_schema import older_schema
from ...store.schema.audit_tables import WHO_LENGTH
from ..all_verbs import AllVerbs
from ..app.state import state_of
from ..management.checks import long_waits
from ..management.failures.database_line import database_line
from . import silence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...store.connection.database import Database
    from ...worker.process.runtime import Runtime

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

EMAIL_ID = click.IntRange(1, MAX_ID)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")


class Number(click.FloatRange):
    """A number in a range. NaN is refused, though it is neither below nor above the range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or fail with the range that is allowed."""
        number = super().convert(value, param, ctx)
        if isnan(number):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return number


SECONDS, DAYS = Number(0, 1e9), Number(0, 36_500)


class CommandGroup(click.Group):
    """Commands that tell an error of the database, or of the settings, in one line.

    While the database is silent, they tell of that.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; exit with 1 and the remedy where its database cannot serve it."""
        with silence.watched(ctx, _database(ctx)) as watched:
            try:
                result = super().invoke(ctx)
            except ConfigurationError as error:
                raise click.ClickException(str(error)) from error
            except (RowsLocked, SQLAlchemyError) as error:
                if watched is not None and watched.gave_up:
                    raise click.ClickException(watched.gave_up) from error
                with ctx.ensure_object(ScriptInfo).load_app().app_context():  # the command's ended
                    text = "\n".join(_told(error))
                raise click.ClickException(text) from error
            return result


def _database(context: click.Context) -> Database | None:
    """Return the outbox's database, or None where settings are wrong: the command tells of that."""
    try:
        return state_of(context.ensure_object(ScriptInfo).load_app()).runtime.database
    except (ConfigurationError, RuntimeError, SQLAlchemyError):
        return None


def _told(error: RowsLocked | SQLAlchemyError) -> Iterator[str]:
    """Yield why the database does not serve, and a line for each session that has locked a table.

    An error's own text quotes values, which belong in no log.
    """
    database, is_row = current_runtime().database, isinstance(error, RowsLocked)
    yield str(error) if is_row else database_line(database, error)
    if is_row or is_lock_timeout(error):
        yield from long_waits.holders(database)


def with_patience(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Run a command in the app's context. Its plain reads wait two seconds for a locked table.

    `sweep`, `drain` and `purge` wait as workers do.
    """

    @with_appcontext
    @wraps(command)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        with bounded_reads(current_runtime().database):
            return command(*args, **kwargs)

    return run


def current_runtime() -> Runtime:
    """Return the parts of the current app's outbox. Raises ConfigurationError without one."""
    return state_of().runtime


def current_outbox() -> AllVerbs:
    """Return the verbs of the current app's outbox."""
    return AllVerbs()


def refuse_copy(runtime: Runtime) -> None:
    """Raise ConfigurationError, with the remedy, where nothing may be sent from this outbox."""
    found = look(runtime.database, runtime.settings.instance)
    if found.refusal is not None and not runtime.sending_is_off():
        raise ConfigurationError(found.refusal)


def refuse_older_schema(runtime: Runtime) -> None:
    """Raise ConfigurationError where a migration was forgotten: each statement may fail then."""
    if problem := older_schema(runtime.database):
        raise ConfigurationError(problem)


def person() -> str:
    """Return who acts, for the audit: the user of this shell."""
    try:
        return f"shell: {getuser()}"[:WHO_LENGTH]
    except (ImportError, KeyError, OSError):  # a container's user may have no name
        return "shell"


def fail_if_locked(emails: int) -> None:
    """Exit with 1, and say what to do, where another transaction kept so many emails unchanged.

    It comes last, when what was done is told: a script must not take a part for all of it.
    """
    if emails:
        raise click.ClickException(f"{counted(emails, *_LOCKED)}; run this again")


_LOCKED = (
    "email is unchanged: another transaction holds it",
    "emails are unchanged: another transaction holds them",
)


def write(work: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a function of the store in a transaction of its own."""
    database = current_runtime().database
    return run_bounded(database, lambda connection: work(connection, database, *args, **kwargs))


def text(longest: int) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """Return a callback that refuses text which no email can have.

    A shell passes on any octets, and a database does not take all of them.
    """

    def read(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
        try:
            return check_name(str(parameter.name), value, longest)
        except InvalidMessage as error:
            raise click.BadParameter(error.rule) from None

    return read
