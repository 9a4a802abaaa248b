"""Converts Flask-Mail's messages into standard ones, or renders them directly."""
