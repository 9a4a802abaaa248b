"""Postfix: Debian's postfix, whole: it takes messages, queues them and delivers them to a Maildir.

One instance has a service for each set of extensions. It shares nothing with the machine's own.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from tests.support.servers.missing import missing
from tests.support.servers.ports import LOOPBACK, accepts, free_port
from tests.support.servers.server import Server
from tests.support.waiting import wait_until

VARIANTS = {
    "all": "",
    "no 8BITMIME": "8bitmime",
    "no PIPELINING": "pipelining",
    "no SMTPUTF8": "smtputf8",
    "none of them": "8bitmime,pipelining,smtputf8",
}
"""What each service of it offers, and which keywords it leaves out of its reply to EHLO."""

_ID = re.compile(rb"^Message-ID: *(<.+>)$", re.IGNORECASE | re.MULTILINE)
_MAIN = """
compatibility_level = 3.6
queue_directory = {data}/queue
data_directory = {data}/state
maillog_file_prefixes = {directory}
maillog_file = {directory}/maillog
inet_interfaces = {host}
inet_protocols = ipv4
myhostname = mx.example
mydestination =
mynetworks = {host}/32
alias_maps =
smtputf8_enable = yes
in_flow_delay = 0s
message_drop_headers =
smtpd_peername_lookup = no
smtpd_client_connection_rate_limit = 0
smtpd_relay_restrictions = permit_mynetworks, reject
smtpd_recipient_restrictions = check_recipient_access inline:{{ refused.example=REJECT }}
smtpd_hard_error_limit = $smtpd_soft_error_limit
enable_original_recipient = no
virtual_alias_domains =
virtual_alias_maps = static:everybody@delivered.example
virtual_mailbox_domains = delivered.example
virtual_mailbox_base = {data}
virtual_mailbox_maps = static:mail/
virtual_uid_maps = static:{owner}
virtual_gid_maps = static:{owner}
"""
_MASTER = """
cleanup   unix  n - n - 0 cleanup
qmgr      unix  n - n 300 1 qmgr
rewrite   unix  - - n - - trivial-rewrite
bounce    unix  - - n - 0 bounce
defer     unix  - - n - 0 bounce
trace     unix  - - n - 0 bounce
proxymap  unix  - - n - - proxymap
error     unix  - - n - - error
retry     unix  - - n - - error
virtual   unix  - n n - - virtual
anvil     unix  - - n - 1 anvil
postlog   unix-dgram n - n - 1 postlogd
"""
_SERVICE = "{host}:{port} inet n - n - - smtpd\n -o smtpd_discard_ehlo_keywords={without}\n"


class Postfix(Server):
    """A Postfix that accepts everything for everybody, and keeps it in one Maildir.

    It refuses who is at refused.example. It ends a session where it would begin to be slow.
    """

    name: ClassVar[str] = "postfix"
    durable = False

    def __init__(self) -> None:
        self.ports = {variant: free_port() for variant in VARIANTS}
        self._read = defaultdict[str, list[bytes]](list)
        self._known = set[Path]()

    def prepare(self) -> None:
        if os.geteuid() != 0:
            missing("Postfix as root", "run the tests as root: its master refuses everybody else")
        self._program("postfix")
        owner = pwd.getpwnam("nobody").pw_uid
        for directory in (self.directory, self.data):
            directory.chmod(0o755)
        for name, user in (("state", pwd.getpwnam("postfix").pw_uid), ("mail", owner)):
            (self.data / name).mkdir(mode=0o700)
            os.chown(self.data / name, user, -1)
        (self.data / "queue").mkdir()
        main = _MAIN.format(data=self.data, directory=self.directory, host=LOOPBACK, owner=owner)
        (self.directory / "main.cf").write_text(main)
        services = [
            _SERVICE.format(host=LOOPBACK, port=self.ports[variant], without=without)
            for variant, without in VARIANTS.items()
        ]
        (self.directory / "master.cf").write_text(_MASTER + "".join(services))
        self._postfix("check")  # makes the queue's directories

    def command(self) -> Sequence[str | Path]:
        daemons = subprocess.run(
            [self._program("postconf"), "-c", self.directory, "-h", "daemon_directory"],
            check=True,
            capture_output=True,
            text=True,
        )
        return [Path(daemons.stdout.strip(), "master"), "-c", self.directory, "-d"]

    def answers(self) -> bool:
        return all(map(accepts, self.ports.values()))

    def terminate(self) -> None:
        self._postfix("stop")

    def delivered(self, message_ids: Mapping[str, str]) -> dict[str, bytes]:
        """Wait until these messages, by any names, lie in the Maildir; return them with CRLF.

        Two may have one Message-ID. What was returned is forgotten.
        """
        wanted = Counter(message_ids.values())

        def missing_ids() -> list[str]:
            self._look()
            return [each for each in wanted if len(self._read[each]) < wanted[each]]

        wait_until(lambda: not missing_ids(), 60, lambda: self._missed(missing_ids()))
        return {name: self._read[each].pop(0) for name, each in message_ids.items()}

    def _look(self) -> None:
        new = set((self.data / "mail" / "new").iterdir()) - self._known
        for path in sorted(new, key=lambda path: path.stat().st_mtime_ns):
            data = path.read_bytes()
            found = _ID.search(data)
            assert found, data[:1000]
            self._read[found[1].decode()].append(data.replace(b"\n", b"\r\n"))
            self._known.add(path)

    def _missed(self, left: list[str]) -> str:
        log = (self.directory / "maillog").read_text(errors="replace")
        lines = [line for line in log.splitlines() if "status=sent" not in line]
        return f"Postfix to deliver {left}; its log:\n" + "\n".join(lines[-40:])

    def _postfix(self, word: str) -> None:
        command: list[str | Path] = [self._program("postfix"), "-c", self.directory, word]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    @staticmethod
    def _program(name: str) -> str:
        path = f"{os.environ.get('PATH', '')}:/usr/sbin"
        return shutil.which(name, path=path) or missing("Postfix", "apt install postfix")
