"""SpamAssassin's own rules, without its network tests: what a filter thinks of a message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.readers import perl

_SCRIPT = r"""
use strict; use warnings; use Mail::SpamAssassin; use JSON::PP; use File::Basename;
my $home = dirname($ARGV[0]); $/ = undef; my $json = JSON::PP->new->ascii;
my $filter = Mail::SpamAssassin->new({local_tests_only => 1, dont_copy_prefs => 1,
  userprefs_filename => "$home/none", userstate_dir => $home, home_dir_for_helpers => $home,
  post_config_text => "use_bayes 0\n"});
for my $path (@ARGV) { open my $file, '<:raw', $path or die;
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
    lines = {name: data.replace(b"\r\n", b"\n") for name, data in messages.items()}
    told = perl.run(_SCRIPT, lines, folder, module="Mail::SpamAssassin", package="spamassassin")
    return {
        name: Score(score=each["score"], rules=frozenset(each["rules"]))
        for name, each in told.items()
    }
