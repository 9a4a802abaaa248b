"""One batch on its way: its server, its windows, its emails and their results."""
