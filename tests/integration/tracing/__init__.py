"""OpenTelemetry: an email keeps its request's trace, and a window's span links to it."""
