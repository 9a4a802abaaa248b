"""Mistakes with the keys of encrypted emails and of erased addresses."""

from __future__ import annotations

from .table import Table
from .trial import Trial

CASES = Table()
mistake = CASES.mistake

KEY = "ZXhhbXBsZXM6IHRoaXMgaXMgbm8gcmFuZG9tIGtleS4="


@mistake(
    "an encryption key that was cut",
    exception="OUTBOX_ENCRYPTION_KEYS['k1'] must be 32 octets in base64",
)
def _(trial: Trial) -> None:
    trial.app(OUTBOX_ENCRYPTION_KEYS={"k1": KEY[:-4]})


@mistake(
    "a worker without the key of the emails",
    start="OUTBOX_ENCRYPTION_KEYS lacks the key k1: emails that are encrypted with it are not sent",
    check="error  OUTBOX_ENCRYPTION_KEYS lacks the key k1",
)
def _(trial: Trial) -> None:
    trial.app(OUTBOX_ENCRYPTION_KEYS={"k1": KEY})
    trial.enqueue()
    trial.app()


@mistake(
    "an erasure without a secret",
    exception="set OUTBOX_ERASE_KEY or SECRET_KEY: erased addresses are remembered under it",
)
def _(trial: Trial) -> None:
    with trial.app().app_context():
        trial.outbox.erase("ada@customers.example")


@mistake(
    "a new SECRET_KEY after an erasure",
    start="OUTBOX_ERASE_KEY, or SECRET_KEY in its place, was changed",
    check="error  OUTBOX_ERASE_KEY, or SECRET_KEY in its place, was changed",
)
def _(trial: Trial) -> None:
    with trial.app(SECRET_KEY="former").app_context():
        trial.outbox.erase("ada@customers.example")
    trial.app(SECRET_KEY="new")


@mistake(
    "no SECRET_KEY after an erasure",
    start="neither OUTBOX_ERASE_KEY nor SECRET_KEY is set",
    check="error  neither OUTBOX_ERASE_KEY nor SECRET_KEY is set",
)
def _(trial: Trial) -> None:
    with trial.app(SECRET_KEY="former").app_context():
        trial.outbox.erase("ada@customers.example")
    trial.app()
