"""Prints one result: as JSON for scripts, or in lines for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import click

from .json_output import print_json

T = TypeVar("T")


def print_result(found: T, lines: Callable[[T], Iterable[str]], as_json: bool) -> None:
    """Print what was `found`. `lines` clean each of theirs: a colour is a control character."""
    if as_json:
        print_json(found)
        return
    for line in lines(found):
        click.echo(line)
