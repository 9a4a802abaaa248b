"""Flask-Mail's messages: converted into standard ones, or rendered at once."""
