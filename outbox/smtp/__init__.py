"""The only SMTP: a client for one server that returns typed verdicts. It knows no database."""
