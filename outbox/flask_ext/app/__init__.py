"""What the extension keeps of one app, and the way from a message to its rows."""
