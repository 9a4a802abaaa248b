"""The drop-in for Flask-Mail's `Mail`."""
