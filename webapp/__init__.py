"""Foolscap: a small stationery shop that sends all its email through the outbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flask import Flask

__all__ = ["create_app"]


def create_app(config: Mapping[str, Any] | None = None) -> Flask:
    """Build the shop from `config`, or from the environment without it.

    The import is in here so that the demo's small processes need not load the whole shop.
    """
    from .app import create_app as build

    return build(config)
