"""What stands where Flask-Mail's `Mail` stood."""
