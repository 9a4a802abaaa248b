"""Prometheus' text format, version 0.0.4.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .families import Family, Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(families: Iterable[Family]) -> str:
    """Return the text of these families. Label values are escaped, so they may be anything."""
    return "".join(f"{line}\n" for family in families for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    yield f"# HELP {family.name} {_escaped(family.help)}"
    yield f"# TYPE {family.name} {family.kind}"
    yield from map(_line, family.samples)


def _line(sample: Sample) -> str:
    labels = ",".join(f'{name}="{_quoted(value)}"' for name, value in sample.labels.items())
    name = f"{sample.name}{{{labels}}}" if labels else sample.name
    return f"{name} {number(sample.value)}"


def number(value: float) -> str:
    """Return a number as Prometheus reads it; a whole one without a fraction."""
    return f"{value:.0f}" if value == int(value) else repr(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')
