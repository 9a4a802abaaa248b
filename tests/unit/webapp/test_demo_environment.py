"""A shell that is set up for a real outbox leads neither the demo nor its commands there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from webapp import config
from webapp.demo.environment import leave_out_foreign
from webapp.demo.tools import _script

FOREIGN = {
    "DATABASE_URL": "sqlite:////srv/real.db",
    "DATABASE_URL_FILE": "/run/secrets/url",
    "DATABASE_PASSWORD": "of the real one\nMAIL_SERVER=smtp.example",
    "MAIL_USE_SSL": "1",
    "OUTBOX_REDIRECT_TO": "somebody@example.com",
    "CELERY_BROKER_URL": "redis://real/0",
    "PGHOSTADDR": "192.0.2.1",
}


def test_each_variable_that_the_shop_reads_is_left_out() -> None:
    text = Path(config.__file__).read_text()
    read = {
        *re.findall(r'environ(?:\.get\(|\[|, )"(\w+)"', text),
        *config.SECRETS,
        *config.OPTIONAL,
    }
    assert read >= {"MAIL_PORT", "PROXIES", "DATABASE_URL", "DEMO_INBOX"}
    environ = dict.fromkeys(read, "x") | {"PATH": "/bin"} | FOREIGN
    leave_out_foreign(environ)
    assert environ == {"PATH": "/bin"}


def test_a_command_of_the_demo_has_the_demos_environment_and_no_other() -> None:
    print_all = [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
    own = {"DATABASE_URL": "sqlite:////demo/shop.db", "OUTBOX_LEASE": "30"}
    given = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": "/home/ada"}
    answer = subprocess.run(
        ["sh", "-c", _script(own, print_all)],
        env=given | FOREIGN,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(answer.stdout)
    assert (answer.stderr, given.items() <= found.items()) == ("", True)
    assert {name: value for name, value in found.items() if name in FOREIGN | own} == own
