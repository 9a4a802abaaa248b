"""What the pages of errors say, by HTTP's code or by a name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class Halfway:
    """What an act has done in parts before the error, and the form that goes on.

    Of what another person has done there is only the page on which to look.
    """

    text: str = ""
    action: str = ""  # the address of the form
    fields: Mapping[str, str] = field(default_factory=dict)
    page: str = ""


ERRORS: dict[int | str, tuple[str, str]] = {
    403: (
        "You may look, and not do this",
        "Your role does not allow it. Who looks after this app can give you another one.",
    ),
    404: (
        "There is nothing here",
        "The address may be mistyped. Or the message has ended long ago, and was removed since.",
    ),
    413: (
        "That is too much",
        "A form may have 2 MB at most, or less if the app's settings say so. Split a long list"
        " into several.",
    ),
    500: (
        "This page failed",
        "It changes nothing. The app's log tells why it failed.",
    ),
    "act": (
        "This failed",
        "What was done before that stays done: look at what there is before you repeat it."
        " The app's log tells why it failed.",
    ),
    "set-up": (
        "The app is not set up for this",
        "Tell who looks after this app: emails may not go out either.",
    ),
    "forged": (
        "This form is too old",
        "Nothing was changed. The page was open for long, or you have logged in anew since, or"
        " the clocks of the app's hosts differ. Go back, load the page again, and repeat what you"
        " did.",
    ),
    "forged-halfway": (
        "This form is too old",
        "What was done before that stays done. The page was open for long, or you have logged in"
        " anew since, or the clocks of the app's hosts differ.",
    ),
    "locked": (
        "That cannot be done now",
        "Another transaction holds a row that this needs. What was done before that stays done."
        " Try again in a minute. If it stays so, tell who looks after this app.",
    ),
    "table-locked": (
        "A table of the outbox is locked",
        "A person or a migration has locked all of it, so this page cannot be read, and emails"
        " may wait. Nothing is lost, and all goes on when that has ended.",
    ),
    "refused": ("That cannot be done", "Nothing was changed."),
}
