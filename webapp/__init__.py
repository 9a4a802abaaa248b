"""Foolscap: a small stationery shop that sends all its mail through the outbox."""

from .app import create_app

__all__ = ["create_app"]
