"""Servers that say nothing for a long time: to a command, to a content, or to a probe."""
