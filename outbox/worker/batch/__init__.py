"""Sends one batch: its server, its windows, its emails and their results."""
