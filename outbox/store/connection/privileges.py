"""Tells a role's missing privilege from a row's own error: PostgreSQL has one code for both."""

from __future__ import annotations

from typing import Any

from sqlalchemy.exc import DBAPIError

_DENIES = "aclcheck_error"
"""The function of PostgreSQL's source that refuses a table, a sequence or a schema to a role. The
code 42501 is also that of row security, and the text of an error is in the server's language."""


def lacks_privilege(error: BaseException) -> bool:
    """Return whether PostgreSQL refuses a whole statement of ours to this role.

    A trigger may lack a privilege for some rows only: then the error tells where it was raised.
    """
    original = error.orig if isinstance(error, DBAPIError) else None
    told: Any = getattr(original, "diag", None)  # psycopg and psycopg2
    return getattr(told, "source_function", None) == _DENIES and not told.context
