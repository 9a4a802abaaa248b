"""A server that hangs up on who names too many recipients that it does not take, as real ones do.

Postfix says 421 in the place of the next reply (`smtpd_hard_error_limit`). Exim says nothing: an
ACL's `drop` closes behind the refusal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tests.support.servers.smtp.dialogue import Dialogue, HangupError
from tests.support.servers.smtp.scripted import ScriptedServer
from tests.support.servers.smtp.stateful import EXTENSIONS

FULL = "421 4.7.0 mx.example Error: too many errors"
OK = "250 2.1.5 ok"


class ImpatientServer(ScriptedServer):
    """Answers RCPT as `says` does, and closes after so many `errors` since the last email.

    Its last word is `farewell`, or none.
    """

    def __init__(
        self,
        says: Callable[[str], str],
        *,
        errors: int = 20,
        farewell: str = FULL,
        pipelining: bool = False,
    ) -> None:
        super().__init__()
        self.otherwise = (self._serve,)
        self.says = says
        self.errors = errors
        self.farewell = farewell
        self.sessions = 1000  # the next ones are refused
        self.asked: Counter[str] = Counter()
        self.copies: Counter[str] = Counter()  # by recipient
        extensions = [*EXTENSIONS, *(["PIPELINING"] if pipelining else [])]
        lines = [f"250-{each}" for each in ("impatient.example", *extensions)]
        self._hello = "\n".join([*lines, "250 DSN"])

    def _serve(self, dialogue: Dialogue) -> None:
        if self.sessions < len(self.dialogues):
            dialogue.say("554 5.3.2 not now")
            return
        dialogue.say("220 impatient.example ESMTP")
        recipients: list[str] = []
        errors = 0
        while errors < self.errors:
            line = dialogue.line()
            if line == "DATA" and recipients:
                self._content(dialogue, recipients)
                recipients, errors = [], 0
                continue
            reply = self._reply(line)
            dialogue.say(reply)
            errors += reply[0] != "2"
            if line.startswith(("MAIL", "RSET")):
                recipients = []
            elif line.startswith("RCPT") and reply[0] == "2":
                recipients.append(_path(line))
        if self.farewell:
            dialogue.say(self.farewell)

    def _content(self, dialogue: Dialogue, recipients: list[str]) -> None:
        dialogue.say("354 go on")
        dialogue.content()
        self.copies.update(recipients)
        dialogue.say("250 2.0.0 queued")

    def _reply(self, line: str) -> str:
        match line[:4]:
            case "EHLO":
                return self._hello
            case "RCPT":
                self.asked[_path(line)] += 1
                return self.says(_path(line))
            case "DATA":
                return "554 5.5.1 no valid recipients"
            case "QUIT":
                raise HangupError
        return "250 2.0.0 fine"


def _path(line: str) -> str:
    return line.partition("<")[2].rpartition(">")[0]
