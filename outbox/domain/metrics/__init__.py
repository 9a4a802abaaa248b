"""The metrics for a monitor such as Prometheus: their names, and their text."""
