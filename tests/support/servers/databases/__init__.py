"""Databases, and what stands between one and its driver."""
