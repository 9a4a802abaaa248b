"""Every mail of Flask-Security-Too is an email of the outbox, in the commit of the view's own rows.

`MAILS` names each. Where the view writes nothing, the email is committed alone and at once. SMS,
passkeys and QR codes are no emails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import flask_security
import pytest
from flask import Flask, template_rendered
from flask.testing import FlaskClient
from flask_security.recoverable import generate_reset_password_token

from tests.integration.dropin.members import (
    CUSTOMER,
    OLD,
    Commit,
    Door,
    Members,
    flask_mailman_after,
    members,
    outbox_alone,
)
from tests.support.servers.smtp.catcher import Catcher

pytestmark = [
    pytest.mark.databases("sqlite"),
    # Flask-Security's forms have choices as WTForms wanted them before, and it warns of its own.
    pytest.mark.filterwarnings("ignore:Passing SelectField choices:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The passwordless feature:DeprecationWarning"),
]

NEW = "a longer password"
SOMEONE = "bo@x.example"
DESK = "desk@shop.example"
TOTP = {"SECURITY_TOTP_SECRETS": {"1": "a secret of the tests"}, "SECURITY_TOTP_ISSUER": "shop"}
TWO_FACTOR = TOTP | {
    "SECURITY_TWO_FACTOR": True,
    "SECURITY_TWO_FACTOR_ENABLED_METHODS": ["email"],
    "SECURITY_TWO_FACTOR_RESCUE_MAIL": DESK,
}
UNIFIED = TOTP | {
    "SECURITY_UNIFIED_SIGNIN": True,
    "SECURITY_US_ENABLED_METHODS": ["password", "email"],
}
GENERIC = {"SECURITY_REGISTERABLE": True, "SECURITY_RETURN_GENERIC_RESPONSES": True}
USERNAME = {"SECURITY_USERNAME_ENABLE": True}


def two_factored(club: Members) -> FlaskClient:
    """Have the member be asked for a code that comes by email."""
    return with_secret(club, "tf_set")


def with_codes(club: Members) -> FlaskClient:
    """Let the member sign in with a code that comes by email."""
    return with_secret(club, "us_set")


def with_secret(club: Members, store: str) -> FlaskClient:
    """Give the member a secret for such codes, by this method of the datastore."""
    security = club.app.extensions["security"]
    with club.app.app_context():
        user = security.datastore.find_user(email=CUSTOMER)
        secret = security.totp_factory.generate_totp_secret()
        getattr(security.datastore, store)(user, "email", totp_secret=secret)
        club.db.session.commit()
    return club.client()


def with_codes_logged_in(club: Members) -> FlaskClient:
    with_codes(club)
    return club.logged_in()


def asked_for_code(club: Members) -> FlaskClient:
    client = two_factored(club)
    answer = client.post("/login", json={"email": CUSTOMER, "password": OLD})
    assert answer.status_code == 200
    club.arrived()
    return client


def reset_path(club: Members) -> str:
    with club.app.test_request_context():
        user = club.app.extensions["security"].datastore.find_user(email=CUSTOMER)
        return f"/reset/{generate_reset_password_token(user)}"


class Mail(NamedTuple):
    """One mail: how the app is set up, what is posted, and what it commits with."""

    template: str
    config: dict[str, Any]
    path: str | Callable[[Members], str]
    form: dict[str, str]
    rows: frozenset[str] = frozenset()
    to: str = CUSTOMER
    prepare: Callable[[Members], FlaskClient] = Members.client


USER = frozenset({"User"})
MAILS = {
    "a reset is asked for": Mail(
        "reset_instructions", {"SECURITY_RECOVERABLE": True}, "/reset", {"email": CUSTOMER}
    ),
    "a reset is done": Mail(
        "reset_notice",
        {"SECURITY_RECOVERABLE": True},
        reset_path,
        {"password": NEW, "password_confirm": NEW},
        USER,
    ),
    "a password is changed": Mail(
        "change_notice",
        {"SECURITY_CHANGEABLE": True},
        "/change",
        {"password": OLD, "new_password": NEW, "new_password_confirm": NEW},
        USER,
        prepare=Members.logged_in,
    ),
    "someone registers and is to confirm": Mail(
        "welcome",
        {"SECURITY_REGISTERABLE": True, "SECURITY_CONFIRMABLE": True},
        "/register",
        {"email": SOMEONE, "password": NEW, "password_confirm": NEW},
        USER,
        SOMEONE,
    ),
    "someone registers and is in": Mail(
        "welcome",
        {"SECURITY_REGISTERABLE": True},
        "/register",
        {"email": SOMEONE, "password": NEW, "password_confirm": NEW},
        USER,
        SOMEONE,
    ),
    "a member registers again": Mail(
        "welcome_existing",
        GENERIC,
        "/register",
        {"email": CUSTOMER, "password": NEW, "password_confirm": NEW},
    ),
    "someone registers with a member's name": Mail(
        "welcome_existing_username",
        GENERIC | USERNAME,
        "/register",
        {"email": SOMEONE, "username": "adaada", "password": NEW, "password_confirm": NEW},
        to=SOMEONE,
    ),
    "a confirmation is asked for again": Mail(
        "confirmation_instructions",
        {"SECURITY_CONFIRMABLE": True},
        "/confirm",
        {"email": CUSTOMER},
    ),
    "a login without a password": Mail(
        "login_instructions", {"SECURITY_PASSWORDLESS": True}, "/login", {"email": CUSTOMER}
    ),
    "another address is to be confirmed": Mail(
        "change_email_instructions",
        {"SECURITY_CHANGE_EMAIL": True},
        "/change-email",
        {"email": SOMEONE},
        to=SOMEONE,
        prepare=Members.logged_in,
    ),
    "a user name is changed": Mail(
        "change_username_notice",
        USERNAME | {"SECURITY_CHANGE_USERNAME": True},
        "/change-username",
        {"username": "lovelace"},
        USER,
        prepare=Members.logged_in,
    ),
    "a user name is asked for": Mail(
        "username_recovery",
        USERNAME | {"SECURITY_USERNAME_RECOVERY": True},
        "/recover-username",
        {"email": CUSTOMER},
    ),
    "two factors are set up": Mail(
        "two_factor_instructions",
        TWO_FACTOR,
        "/tf-setup",
        {"setup": "email"},
        prepare=Members.logged_in,
    ),
    "a login with two factors": Mail(
        "two_factor_instructions",
        TWO_FACTOR,
        "/login",
        {"email": CUSTOMER, "password": OLD},
        prepare=two_factored,
    ),
    "the code is asked for by email": Mail(
        "two_factor_instructions",
        TWO_FACTOR,
        "/tf-rescue",
        {"help_setup": "email"},
        prepare=asked_for_code,
    ),
    "the desk is asked for help": Mail(
        "two_factor_rescue",
        TWO_FACTOR,
        "/tf-rescue",
        {"help_setup": "help"},
        to=DESK,
        prepare=asked_for_code,
    ),
    "a code to sign in": Mail(
        "us_instructions",
        UNIFIED,
        "/us-signin/send-code",
        {"identity": CUSTOMER, "chosen_method": "email"},
        prepare=with_codes,
    ),
    "a code to set up sign-in": Mail(
        "us_instructions",
        UNIFIED,
        "/us-setup",
        {"chosen_method": "email"},
        prepare=Members.logged_in,
    ),
    "a code to be verified": Mail(
        "us_instructions",
        UNIFIED,
        "/us-verify/send-code",
        {"chosen_method": "email"},
        prepare=with_codes_logged_in,
    ),
}

Open = Callable[..., Members]


@pytest.fixture
def club(database_url: str, catcher: Catcher) -> Iterator[Open]:
    opened: list[Members] = []

    def club(door: Door, **config: Any) -> Members:
        opened.append(members(door, database_url, catcher, **config))
        return opened[-1]

    yield club
    for found in opened:
        found.close()


def ask(found: Members, client: FlaskClient, mail: Mail) -> int:
    path = mail.path if isinstance(mail.path, str) else mail.path(found)
    return client.post(path, json=mail.form).status_code


@pytest.mark.long
@pytest.mark.matrix
@pytest.mark.parametrize("door", [outbox_alone, flask_mailman_after], ids=lambda d: d.__name__)
@pytest.mark.parametrize("name", MAILS)
def test_an_email_stands_in_the_commit_of_its_own_rows(club: Open, name: str, door: Door) -> None:
    mail = MAILS[name]
    found = club(door, **mail.config)
    client = mail.prepare(found)
    before, sessions = len(found.commits), found.catcher.sessions
    templates: list[str] = []

    def rendered(_: Flask, template: Any, **__: object) -> None:
        templates.append(template.name)

    with template_rendered.connected_to(rendered, found.app):
        assert ask(found, client, mail) == 200
    assert f"security/email/{mail.template}.txt" in templates
    assert found.commits[before:] == [Commit(mail.rows, 1)]
    assert found.catcher.sessions == sessions, "SMTP was spoken in the request"
    assert found.arrived()[-1]["To"] == mail.to


@pytest.mark.matrix
@pytest.mark.parametrize("name", [name for name, mail in MAILS.items() if mail.rows])
@pytest.mark.parametrize("door", [outbox_alone, flask_mailman_after], ids=lambda d: d.__name__)
def test_where_the_commit_fails_there_is_neither(club: Open, name: str, door: Door) -> None:
    mail = MAILS[name]
    found = club(door, **mail.config)
    client = mail.prepare(found)
    committed = found.members()
    found.fail_commits()
    with pytest.raises(ZeroDivisionError):
        ask(found, client, mail)
    assert (found.statuses(), found.members()) == ([], committed)


def test_the_table_has_every_email_of_flask_security() -> None:
    folder = Path(flask_security.__file__).parent / "templates" / "security" / "email"
    assert {mail.template for mail in MAILS.values()} == {path.stem for path in folder.iterdir()}
