"""The rules of jobs."""
