"""Every error that a user of the library can meet. Its docstring says when it is raised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

_Entry = TypeVar("_Entry")


class OutboxError(Exception):
    """The base of all errors raised by the library.

    A process pool of yours may pickle one, and reads the same error. Only its `value` is None.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the text and the attributes: `__init__` takes others than `args` has."""
        kept = self.__dict__ | ({"value": None} if "value" in self.__dict__ else {})
        return _unpickled, (type(self), self.args, kept)


def _unpickled(kind: type[OutboxError], args: tuple[Any, ...], kept: dict[str, Any]) -> OutboxError:
    """Return the error that was pickled, without its `value`: an address, or a whole message."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(kept)
    return error


class InvalidMessage(OutboxError, ValueError):
    """A message or an argument that cannot be taken: `field` names it, `rule` the rule it breaks.

    Nothing was written, and the caller's transaction is usable. The value itself is not repeated,
    because addresses and subjects do not belong in logs. Where a list was read, the text names the
    place in it, such as `recipients[2]`, or `messages[3].recipients[2]` in an `enqueue_many`. The
    first number of that place is `index`, counted from 0, and `value` is what stands there.
    """

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field}: {rule}")
        self.field = field
        self.rule = rule
        self.index: int | None = None
        self.value: object = None
        self._place = ""  # in the lists that were read, the outermost first

    def at(self, name: str, index: int, value: object) -> InvalidMessage:
        """Return the same error, told as that of one place in a list with this name.

        It may be a place in a list already: then that list stands within this one.
        """
        of = "" if self._place or self.field == name else f"{self.field}: "
        found = InvalidMessage(self.field, self.rule)
        found._place = f"{name}[{index}]" + (f".{self._place}" if self._place else "")
        found.args = (f"{found._place}: {of}{self.rule}",)
        found.index, found.value = index, value
        return found


class KeyConflict(OutboxError):
    """The idempotency key is taken by an email with other content; the transaction is usable.

    `key` is that key. The text names it, unless it has an @: addresses do not belong in logs. Of an
    `enqueue_many`, `index` is the place in its list, from 0, and `value` what stands there.
    """

    def __init__(self, key: str) -> None:
        named = "this key (see the error's key)" if "@" in key else f"the key {key!r}"
        super().__init__(f"an email with other content has {named}")
        self.key = key
        self.index: int | None = None
        self.value: object = None

    def at(self, name: str, index: int, value: object) -> KeyConflict:
        """Return the same error, told as that of one place in a list with this name."""
        found = KeyConflict(self.key)
        found.args = (f"{name}[{index}]: {self}",)
        found.index, found.value = index, value
        return found


class KeyContention(OutboxError):
    """Another transaction holds the idempotency key, and this one cannot see the email of that key.

    It happens on a deadlock and under snapshot isolation. Nothing of this email was written: retry
    the whole transaction. A serialization failure of PostgreSQL (SQLSTATE 40001) stays SQLAlchemy's
    own error, with a key and without one.
    """


class SentAgain(OutboxError):
    """The email was sent again since the person looked who asks for it once more; see `seen`."""


_LOCKED = "another transaction has locked a row that is needed: try again later"


class RowsLocked(OutboxError):
    """Another transaction has locked a row that a verb needs; the verb has waited two seconds.

    The transaction of the verb that met it has changed nothing. A verb that works in several
    transactions has committed those before. Their results are not told, and stay. Call the verb
    again once the other transaction has ended: it does the rest.
    """

    def __init__(self, text: str = _LOCKED) -> None:
        super().__init__(text)


class ConfigurationError(OutboxError):
    """A setting is unknown, has the wrong type or contradicts another one.

    It is raised too for a session, an engine or a driver with which an email could be lost, or
    could leave without its order. Nothing was written, and the caller's transaction is usable. Only
    where the outbox's tables are missing must it be rolled back, and where a commit raises this.
    """


def note_place(error: Exception, name: str, place: int) -> None:
    """Note in an error of the app's own code at which place of the list with this name it was."""
    error.add_note(f"outbox: at {name}[{place}], counted from 0")


def placed(name: str, entries: Iterable[_Entry]) -> Iterable[_Entry]:
    """Return the entries; an error of the code that yields them gets a note of the place."""
    return entries if isinstance(entries, (list, tuple)) else _placed(name, entries)


def _placed(name: str, entries: Iterable[_Entry]) -> Iterator[_Entry]:
    place = 0
    try:
        for entry in entries:
            yield entry
            place += 1
    except Exception as error:
        note_place(error, name, place)
        raise
