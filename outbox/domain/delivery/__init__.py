"""What replies mean, and what they do to an email and to a server."""
