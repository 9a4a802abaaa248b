"""Access by HTTP's basic authentication, for apps without a login."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from flask import abort, request
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import Unauthorized
from werkzeug.security import check_password_hash

from ...domain.errors import ConfigurationError
from .role import Access, Role

_METHODS = ("scrypt:", "pbkdf2:")
_ASK = WWWAuthenticate("basic", {"realm": "outbox", "charset": "UTF-8"})


def basic_auth(users: Mapping[str, tuple[str, Role]]) -> Access:
    """Return an `access` that asks for a name and a password.

    `users` has each user's hashed password and role by name: `{"ada": (hash, Role.ACT)}`. Make the
    hash with `werkzeug.security.generate_password_hash`. Use it over HTTPS only, because a browser
    sends the password with each request. Raises ConfigurationError for what is no such pair.
    """
    for name, entry in users.items():
        match entry:
            case str(hashed), Role():
                pass
            case _:  # an app's own mistake, which no type checker has told
                told = f"the user {name!r} needs a hash and a role"
                raise ConfigurationError(f"{told}: {{{name!r}: (hash, Role.ACT)}}")
        if not hashed.startswith(_METHODS) or hashed.count("$") != 2:
            told = f"the password of {name!r} is not hashed"
            raise ConfigurationError(f"{told}: use werkzeug.security.generate_password_hash")
    return _Basic(dict(users)).access


@dataclass(kw_only=False)
class _Basic:
    """The users, and which passwords were right.

    A hash is slow on purpose, and a page that refreshes itself sends its password every few
    seconds. So a password that was right once is known again by a digest, under a key that only
    this process has.
    """

    users: dict[str, tuple[str, Role]]
    known: dict[str, bytes] = field(default_factory=dict)
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    def access(self) -> tuple[Role, str]:
        given = request.authorization
        name = (given.username if given and given.type == "basic" else None) or ""
        password = (given.password if given and given.type == "basic" else None) or ""
        if not self._is_right(name, password):
            # A whole answer: a browser asks by its header alone, which an app's own page of errors
            # would mostly leave out.
            abort(Unauthorized(www_authenticate=_ASK).get_response())
        return self.users[name][1], name

    def _is_right(self, name: str, password: str) -> bool:
        """Compare in a time that does not tell which names exist."""
        digest = hmac.digest(self.key, f"{name}\0{password}".encode(), "sha256")
        if hmac.compare_digest(self.known.get(name, b""), digest):
            return True
        hashed, _ = self.users.get(name) or self._any()
        if not check_password_hash(hashed, password) or name not in self.users:
            return False
        self.known[name] = digest
        return True

    def _any(self) -> tuple[str, Role | None]:
        """Return a user's hash for a name that nobody has: to compare it takes as long."""
        return next(iter(self.users.values()), ("", None))
