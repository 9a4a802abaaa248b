"""Inserts emails, contents, and many rows at once."""
