"""Tells a role's missing privilege from a row's own error: databases have one code for both."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy.exc import DBAPIError

LACKS = "the database's role lacks a privilege, which `flask outbox check` names"

_DENIES = "aclcheck_error"
"""The function of PostgreSQL's source that refuses a table, a sequence or a schema to a role. The
code 42501 is also that of row security, and the text of an error is in the server's language."""

_DENIED = frozenset({1142, 1143})
"""MariaDB, MySQL: a table or a column is refused. A trigger whose definer lacks a privilege has the
same codes."""
_OURS = re.compile(r"[`'.]outbox_\w+[`'](?![.@])")
"""One of our tables in such an error's text, in any language; no database, and no user. A trigger
of the app's reads the app's own tables."""


def lacks_privilege(error: BaseException) -> bool:
    """Return whether the database refuses a whole statement of ours to this role.

    A trigger may lack a privilege for some rows only: then PostgreSQL tells where the error was
    raised, and MariaDB and MySQL name the trigger's table.
    """
    original = error.orig if isinstance(error, DBAPIError) else None
    code, *texts = getattr(original, "args", None) or (None,)
    if getattr(original, "errno", code) in _DENIED:  # errno: MariaDB's connector
        return _OURS.search(str(texts[0] if texts else original)) is not None
    told: Any = getattr(original, "diag", None)  # psycopg and psycopg2
    return getattr(told, "source_function", None) == _DENIES and not told.context
