"""What a process does while a server is silent to an email, and behind that."""
