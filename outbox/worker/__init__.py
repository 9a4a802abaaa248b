"""The motion: sweeps claim, send tasks send, and the table is told."""
