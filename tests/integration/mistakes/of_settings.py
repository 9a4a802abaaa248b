"""Mistakes in settings."""

from __future__ import annotations

from .table import Table
from .trial import Trial

CASES = Table()
mistake = CASES.mistake


@mistake(
    "no sender for messages that name none",
    check="MAIL_DEFAULT_SENDER is not set, so each message without a sender of its own is refused",
    exception="sender: is required; set it or MAIL_DEFAULT_SENDER",
)
def _(trial: Trial) -> None:
    trial.app(MAIL_DEFAULT_SENDER=None)
    trial.enqueue()


@mistake(
    "an unknown OUTBOX_ key",
    exception="ConfigurationError: unknown setting OUTBOX_SERVER; did you mean OUTBOX_SERVERS?",
)
def _(trial: Trial) -> None:
    trial.app(OUTBOX_SERVER="mx.example")


@mistake(
    "a number that cannot be read",
    exception="OUTBOX_SLOTS must be a whole number, not this text",
)
def _(trial: Trial) -> None:
    trial.app(OUTBOX_SLOTS="eight")


@mistake(
    "a port that cannot be read",
    exception="MAIL_PORT must be a whole number, not this text",
)
def _(trial: Trial) -> None:
    trial.app(MAIL_PORT="smtp")


@mistake(
    'MAIL_USE_TLS = "false", which Python takes for true',
    check="mx.example:25: SMTP is not encrypted",
)
def _(trial: Trial) -> None:
    trial.app(MAIL_USE_TLS="false")
    assert trial.runtime.servers[0].security == "none"


@mistake(
    "MAIL_HOST in the place of MAIL_SERVER",
    log="MAIL_HOST is not read; did you mean MAIL_SERVER?",
    check="MAIL_HOST is not read; did you mean MAIL_SERVER?",
)
def _(trial: Trial) -> None:
    trial.app(MAIL_SERVER=None, MAIL_HOST="mx.example")


@mistake(
    "a misspelt MAIL_ key",
    log="MAIL_PASWORD is not read; did you mean MAIL_PASSWORD?",
    check="MAIL_PASWORD is not read; did you mean MAIL_PASSWORD?",
)
def _(trial: Trial) -> None:
    trial.app(MAIL_PASWORD="hunter2")
    assert "hunter2" not in trial.logged() + trial.run("check")


@mistake(
    "Django's keys",
    log="EMAIL_HOST is not read; did you mean MAIL_SERVER?",
    check="DEFAULT_FROM_EMAIL is not read; did you mean MAIL_DEFAULT_SENDER?",
)
def _(trial: Trial) -> None:
    trial.app(
        MAIL_SERVER=None,
        EMAIL_HOST="mx.example",
        MAIL_DEFAULT_SENDER=None,
        DEFAULT_FROM_EMAIL="a@x.example",
    )


@mistake(
    "a setting that comes after init_app",
    start="set after init_app, and so without effect: OUTBOX_SLOTS",
    check="set after init_app, and so without effect: OUTBOX_SLOTS",
)
def _(trial: Trial) -> None:
    trial.app().config["OUTBOX_SLOTS"] = 8


@mistake(
    "no server at all",
    start="no server is named, by MAIL_SERVER or OUTBOX_SERVERS: emails go to 127.0.0.1",
    check="no server is named, by MAIL_SERVER or OUTBOX_SERVERS: emails go to 127.0.0.1",
)
def _(trial: Trial) -> None:
    trial.app(MAIL_SERVER=None)


@mistake(
    "no encryption",
    start="mx.example:25: SMTP is not encrypted",
    check="mx.example:25: SMTP is not encrypted",
)
def _(trial: Trial) -> None:
    trial.app(MAIL_USE_TLS=False)


@mistake(
    "port 465 with STARTTLS",
    log="a server on port 465 speaks TLS from the first octet: set MAIL_USE_SSL",
    check="a server on port 465 speaks TLS from the first octet: set MAIL_USE_SSL",
)
def _(trial: Trial) -> None:
    trial.app(MAIL_PORT=465)


@mistake(
    "port 587 with TLS from the start",
    log="a server on port 587 begins in clear: set MAIL_USE_TLS",
    check="a server on port 587 begins in clear: set MAIL_USE_TLS",
)
def _(trial: Trial) -> None:
    trial.app(MAIL_USE_TLS=False, MAIL_USE_SSL=True, MAIL_PORT=587)


@mistake(
    "a port behind the server's name",
    log="mx.example:587:587: MAIL_SERVER (server) is no host name: give the name alone",
    check="mx.example:587:587: MAIL_SERVER (server) is no host name: give the name alone",
)
def _(trial: Trial) -> None:
    trial.app(MAIL_SERVER="mx.example:587")


@mistake(
    "a password that was read from a file with its line end",
    log="the password begins or ends with a blank or a line end",
    check="the password begins or ends with a blank or a line end",
)
def _(trial: Trial) -> None:
    trial.app(MAIL_USERNAME="jo", MAIL_PASSWORD="hunter2\n")


@mistake(
    "a pair as a text, as the environment has it, for the default sender",
    log="MAIL_DEFAULT_SENDER is no address, so each message without a sender of its own",
    check="MAIL_DEFAULT_SENDER is no address, so each message without a sender of its own",
)
def _(trial: Trial) -> None:
    trial.app(MAIL_DEFAULT_SENDER="('Shop', 'shop@shop.example')")


@mistake(
    "days in the place of seconds",
    log="OUTBOX_RETENTION counts seconds, and by it the purge removes what ended a few minutes ago",
    check="OUTBOX_RETENTION counts seconds, and by it the purge removes what ended a few minutes",
)
def _(trial: Trial) -> None:
    trial.app(OUTBOX_RETENTION=30)


@mistake(
    "milliseconds in the place of seconds",
    log="OUTBOX_LEASE counts seconds, and by it a dead worker's emails wait for over two hours",
    check="OUTBOX_LEASE counts seconds, and by it a dead worker's emails wait for over two hours",
)
def _(trial: Trial) -> None:
    trial.app(OUTBOX_LEASE=30_000)


@mistake(
    "a user name without a password",
    log="a user name is set without a password",
    check="a user name is set without a password",
)
def _(trial: Trial) -> None:
    trial.app(MAIL_USERNAME="shop")


@mistake(
    "a password over a connection in clear",
    exception="MAIL_USERNAME without MAIL_USE_TLS or MAIL_USE_SSL would send the password in clear",
)
def _(trial: Trial) -> None:
    trial.app(MAIL_USE_TLS=False, MAIL_USERNAME="shop", MAIL_PASSWORD="hunter2")


@mistake(
    "MAIL_SUPPRESS_SEND in production",
    start="MAIL_SUPPRESS_SEND is on",
    check="MAIL_SUPPRESS_SEND is on",
    health="MAIL_SUPPRESS_SEND is on",
)
def _(trial: Trial) -> None:
    trial.app(MAIL_SUPPRESS_SEND="true")


@mistake(
    "a staging address in production",
    log="OUTBOX_REDIRECT_TO is set: no email goes to its recipients",
    check="OUTBOX_REDIRECT_TO: every email goes to dev@x.example",
)
def _(trial: Trial) -> None:
    trial.app(OUTBOX_REDIRECT_TO="dev@x.example")


@mistake(
    "SQLite in memory, with a worker in another process",
    start="SQLite's database is in this process's memory: no worker sees what is enqueued",
    check="SQLite's database is in this process's memory: no worker sees what is enqueued",
)
def _(trial: Trial) -> None:
    app = trial.app(SQLALCHEMY_DATABASE_URI="sqlite://")
    with app.app_context():
        trial.db.create_all()


@mistake(
    "a settings error behind the flask command",
    check="error  unknown setting OUTBOX_SLOT; did you mean OUTBOX_SLOTS?",
)
def _(trial: Trial) -> None:
    trial.factory = lambda: trial.app(OUTBOX_SLOT=8)


@mistake(
    "no init_app",
    check="error  the outbox has no app: call outbox.init_app(app, …) first",
)
def _(trial: Trial) -> None:
    trial.factory = lambda: trial.app(init=False)
