"""Perl's Email::MIME, the parser of many ticket systems and mail filters."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.readers.seen import Seen, lines
from tests.servers.missing import missing

_SCRIPT = """
use strict; use warnings; use Email::MIME; use JSON::PP; use MIME::Base64;
local $/; my $m = Email::MIME->new(<STDIN>); my @parts;
sub people { [map {[$_->phrase // '', $_->address]} $m->header_as_obj($_[0])->addresses] }
$m->walk_parts(sub {
  my $p = shift; return if $p->subparts; my $type = $p->content_type // 'text/plain';
  my $isfile = ($p->header('Content-Disposition') // '') =~ /^attachment/;
  push @parts, {type => $type, file => $isfile ? $p->filename : undef,
    text => $isfile ? undef : $p->body_str, data => encode_base64($p->body, '')};
});
print JSON::PP->new->ascii->encode({subject => $m->header_str('Subject'),
  from => people('From'), to => people('To'), parts => \\@parts});
"""


def read(message: Path, _message_id: str) -> Seen:
    """Return what Email::MIME reads in this file."""
    perl = shutil.which("perl") or missing("Perl", "apt install perl")
    found = subprocess.run([perl, "-MEmail::MIME", "-e1"], check=False, capture_output=True)
    if found.returncode:
        missing("Email::MIME", "apt install libemail-mime-perl")
    with message.open("rb") as octets:
        run = subprocess.run(
            [perl, "-e", _SCRIPT], stdin=octets, check=True, capture_output=True, text=True
        )
    told: dict[str, Any] = json.loads(run.stdout)
    seen = Seen(
        subject=told["subject"],
        sender=[(name, address) for name, address in told["from"]],
        to=[(name, address) for name, address in told["to"]],
    )
    for part in told["parts"]:
        if part["file"] is not None:
            seen.files.append((part["file"], base64.b64decode(part["data"])))
        elif part["type"].startswith("text/html"):
            seen.htmls.append(lines(part["text"]))
        else:
            seen.texts.append(lines(part["text"]))
    return seen
