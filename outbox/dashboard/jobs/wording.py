"""What the pages say of each action."""

from __future__ import annotations

from dataclasses import dataclass

from ...domain.jobs.order import Action


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """An action in words."""

    title: str
    about: str  # what happens to each message
    button: str
    done: str  # of so many messages
    is_final: bool = False  # nobody can take it back
    ends: str = ""  # how those end with which it is done, if not all end alike
    left: str = "another status meanwhile, or a row that another transaction held."


WORDS = {
    Action.RETRY: Words(
        title="Retry",
        about="Each is due at once, with fresh counters. A message whose body was removed stays"
        " as it is. So does one whose expires_at has passed: “Send again” on its own page makes a"
        " new message of it.",
        button="Retry them",
        done="due again",
        left="another status meanwhile, a body that was removed, an expires_at that has passed"
        " (“Send again” on a message's page makes a new message of it), or a row that another"
        " transaction held.",
    ),
    Action.CANCEL: Words(
        title="Withdraw",
        about="None of them is sent any more. What a worker is just sending goes out.",
        button="Withdraw them",
        done="withdrawn",
        is_final=True,
        ends="What is withdrawn ends as cancelled. But a message in doubt ends as unknown, and one"
        " of which a recipient has a copy ends as sent.",
    ),
    Action.AS_SENT: Words(
        title="Resolve as sent",
        about="Their doubt ends: they count as sent, and nobody is asked again.",
        button="Resolve them as sent",
        done="resolved",
        is_final=True,
    ),
    Action.AS_FAILED: Words(
        title="Resolve as failed",
        about="Their doubt ends: they count as failed. Then they can be retried.",
        button="Resolve them as failed",
        done="resolved",
        is_final=True,
    ),
}
