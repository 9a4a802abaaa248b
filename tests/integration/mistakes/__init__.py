"""Typical mistakes, and where each is told: the exception, the log, `check`, `health`."""
