"""SpamAssassin's own rules, without its network tests: what a filter thinks of a message."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers.missing import missing

_SCRIPT = r"""
use strict; use warnings; use Mail::SpamAssassin; use JSON::PP;
my ($home, @paths) = @ARGV; $/ = undef; my $json = JSON::PP->new->ascii;
my $filter = Mail::SpamAssassin->new({local_tests_only => 1, dont_copy_prefs => 1,
  userprefs_filename => "$home/none", userstate_dir => $home, home_dir_for_helpers => $home,
  post_config_text => "use_bayes 0\n"});
for my $path (@paths) { open my $file, '<:raw', $path or die;
  my $message = $filter->parse(<$file>); my $status = $filter->check($message);
  print $json->encode({score => $status->get_score + 0,
    rules => [split /,/, $status->get_names_of_tests_hit]}), "\n";
  $status->finish; $message->finish }
"""


@dataclass(frozen=True, kw_only=True)
class Score:
    """Higher is worse."""

    score: float
    rules: frozenset[str]


def scores(messages: Mapping[str, bytes], folder: Path) -> dict[str, Score]:
    """Return what it thinks of these messages, by their names."""
    perl = shutil.which("perl") or missing("Perl", "apt install perl")
    found = subprocess.run([perl, "-MMail::SpamAssassin", "-e1"], check=False, capture_output=True)
    if found.returncode:
        missing("SpamAssassin", "apt install spamassassin")
    paths = [folder / str(number) for number in range(len(messages))]
    for path, data in zip(paths, messages.values(), strict=True):
        path.write_bytes(data.replace(b"\r\n", b"\n"))
    run = subprocess.run(
        [perl, "-e", _SCRIPT, folder, *paths], check=True, capture_output=True, text=True
    )
    told = [json.loads(line) for line in run.stdout.splitlines()]
    return {
        name: Score(score=each["score"], rules=frozenset(each["rules"]))
        for name, each in zip(messages, told, strict=True)
    }
