"""What a person or a program does to emails that are written: `Outbox` and `flask outbox`."""
