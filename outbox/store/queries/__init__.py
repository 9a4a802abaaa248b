"""Queries of the tables. Nothing is written here."""
