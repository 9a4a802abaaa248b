"""Foolscap: a small stationery shop that sends all its email through the outbox."""

from .app import create_app

__all__ = ["create_app"]
