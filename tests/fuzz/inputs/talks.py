"""What a server may say: a good one's dialogue with faults in it, or any octets at all."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import strategies as st


@dataclass(frozen=True, kw_only=True)
class Act:
    """What the server does behind a command: octets in pieces, and then perhaps an end."""

    octets: bytes
    cuts: tuple[int, ...] = ()
    end: str = ""  # "", "close", "reset" or "silent"

    @property
    def pieces(self) -> list[bytes]:
        places = sorted({min(cut, len(self.octets)) for cut in self.cuts} | {0, len(self.octets)})
        return [self.octets[a:b] for a, b in pairwise(places)]


@dataclass(frozen=True, kw_only=True)
class Talk:
    """One dialogue: the acts of the server, and how the client is set."""

    acts: tuple[Act, ...]
    emails: int
    recipients: int
    login: bool
    starttls: bool


_LINES = [
    b"250 ok\r\n",
    b"250 2.0.0 queued\r\n",
    b"250-a\r\n250 b\r\n",
    b"250\r\n",
    b"251 other\r\n",
    b"299 x\r\n",
    b"354 go\r\n",
    b"334 VXNlcm5hbWU6\r\n",
    b"334 \xff\xff\r\n",
    b"235 ok\r\n",
    b"220 go\r\n",
    b"221 bye\r\n",
    b"421 4.3.2 closing\r\n",
    b"450 4.2.1 later\r\n",
    b"451 4.7.1 greylisted 300 seconds\r\n",
    b"452 4.5.3 too many\r\n",
    b"454 Throttling failure\r\n",
    b"503 bad sequence\r\n",
    b"530 auth\r\n",
    b"535 no\r\n",
    b"550 5.1.1 nobody\r\n",
    b"552 too many\r\n",
    b"554 5.7.1 no\r\n",
    b"150 x\r\n",
    b"600 x\r\n",
    b"999 x\r\n",
    b"000 x\r\n",
    b"25\r\n",
    b"2500 x\r\n",
    b"\xb2\xb5\xb0 x\r\n",
    b"+250 x\r\n",
    b" 250 ok\r\n",
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b"\xff\xfe\r\n",
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"250",
    b"250-",
    b"250-x\r\n",
    b"250-x\r\n550 y\r\n",
    b"250-x\r\nhello\r\n",
    b"250 ok\n",
    b"250 ok\r",
    b"250 \x1b[2J\0\xe2\x80\xae evil\r\n",
    b"250 " + b"x" * 2040 + b"\r\n",
    b"250 " + b"x" * 5000 + b"\r\n",
    b"x" * 9000,
    b"250-x\r\n" * 99,
    b"250-x\r\n" * 5000,
    b"250 ok\r\n250 ok\r\n",
    b"250 ok\r\n421 x\r\n",
    b"354 go\r\n250 ok\r\n",
    b"550 4.7.0 try again in 99999999 hours\r\n",
    b"450 wait 0 s\r\n",
]
_EHLOS = [
    b"250-x\r\n250-PIPELINING\r\n250-SMTPUTF8\r\n250-8BITMIME\r\n250 SIZE 99999\r\n",
    b"250-x\r\n250-AUTH PLAIN LOGIN CRAM-MD5\r\n250 STARTTLS\r\n",
    b"250-x\r\n250 SIZE 10\r\n",
    b"250-x\r\n250-SIZE " + b"9" * 1900 + b"\r\n250 SIZE -1\r\n",
    b"250-\r\n250-AUTH\r\n250 =\r\n",
    b"250-x\r\n250-SIZE \xb2\r\n250-AUTH=LOGIN\r\n250 PIPELINING\xff\r\n",
    b"250-x\r\n250 SIZE\t5 5\r\n",
]

_ANY = st.binary(max_size=60)
_SAID = st.one_of(
    st.sampled_from(_LINES),
    st.sampled_from(_EHLOS),
    st.lists(st.sampled_from(_LINES) | _ANY, max_size=4).map(b"".join),
    st.builds(
        lambda code, mark, text: b"%d%s%s\r\n" % (code, mark, text),
        st.integers(0, 1000),
        st.sampled_from([b" ", b"-", b"", b"\t", b"_"]),
        _ANY,
    ),
    _ANY,
)
_ENDS = st.sampled_from([""] * 12 + ["close"] * 4 + ["reset", "silent"])
_ACT = st.builds(
    lambda octets, cuts, end: Act(octets=octets, cuts=tuple(cuts), end=end),
    _SAID,
    st.lists(st.integers(0, 60), max_size=3),
    _ENDS,
)


def _obedient(recipients: int, emails: int, pipelining: bool) -> list[bytes]:
    """What a good server says, one reply for each command."""
    mail = [b"250 ok\r\n"] * (1 + recipients) + [b"354 go\r\n", b"250 2.0.0 queued\r\n"]
    hello = b"250-x\r\n250-PIPELINING\r\n250 8BITMIME\r\n" if pipelining else b"250 x\r\n"
    return [b"220 x\r\n", hello, *mail * emails]


@st.composite
def talks(draw: st.DrawFn) -> Talk:
    """A good server's dialogue with up to three of its replies exchanged; or nothing of that."""
    emails, recipients = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    acts = [Act(octets=o) for o in _obedient(recipients, emails, draw(st.booleans()))]
    if draw(st.integers(0, 9)) == 0:
        acts = draw(st.lists(_ACT, max_size=8))
    for _ in range(draw(st.integers(0, 3))):
        if acts:
            # The last ones are the replies to the final dot and what leads to it.
            place = len(acts) - 1 - draw(st.integers(0, len(acts) - 1))
            acts[place] = draw(_ACT)
    login, starttls = draw(st.sampled_from([(False, False)] * 8 + [(True, False), (False, True)]))
    return Talk(
        acts=tuple(acts), emails=emails, recipients=recipients, login=login, starttls=starttls
    )
