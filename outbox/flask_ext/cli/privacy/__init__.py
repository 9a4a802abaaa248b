"""The commands for one person's data."""
