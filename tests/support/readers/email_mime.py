"""Perl's Email::MIME, the parser of many ticket systems and email filters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.support.readers import perl
from tests.support.readers.seen import Seen, from_told

_SCRIPT = r"""
use strict; use warnings; use Email::MIME; use JSON::PP; use MIME::Base64;
my $json = JSON::PP->new->ascii;
$/ = undef;
sub is_file { ($_[0]->header('Content-Disposition') // '') =~ /^attachment/i
  || $_[0]->header('Content-ID') || $_[0]->filename }
sub told { my ($m) = @_; my (@parts, %fields, %people);
  for my $name ($m->header_names) { $fields{$name} = $m->header_str($name) }
  for my $name ('From', 'To', 'Cc', 'Reply-To') { next unless defined $m->header($name);
    $people{$name} = [map {[$_->phrase // '', $_->address]} $m->header_as_obj($name)->addresses] }
  $m->walk_parts(sub { my $p = shift; return if $p->subparts;
    my $type = lc(($p->content_type // 'text/plain') =~ s/\s*;.*//sr);
    my $file = is_file($p) || $type !~ /^text/;
    push @parts, {type => $type, is_file => $file ? \1 : \0, name => $p->filename,
      text => $file ? undef : $p->body_str,
      content_id => $p->header('Content-ID') // '', data => encode_base64($p->body, '')} });
  return {fields => \%fields, people => \%people, parts => \@parts} }
for my $path (@ARGV) { open my $f, '<:raw', $path or die; my $m = Email::MIME->new(<$f>);
  my $seen = eval { told($m) }; print $json->encode($seen // {failed => "$@"}), "\n" }
"""


def read(messages: Mapping[str, bytes], folder: Path) -> dict[str, Seen]:
    """Return what Email::MIME reads in these messages."""
    told = perl.run(_SCRIPT, messages, folder, module="Email::MIME", package="libemail-mime-perl")
    return {name: from_told(each) for name, each in told.items()}
