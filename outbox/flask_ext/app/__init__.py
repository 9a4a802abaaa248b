"""The extension's state for one app, and the way from a message to its rows."""
