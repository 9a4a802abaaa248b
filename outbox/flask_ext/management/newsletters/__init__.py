"""The newsletters: which tags there are, how far each has come, and how the rest is stopped."""
