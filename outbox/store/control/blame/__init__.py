"""Whose fault a failure is, the email's or the server's: suspicions, and the emails that decide them."""
