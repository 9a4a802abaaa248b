"""The motion: sweeps claim, send tasks relay, and the table is told."""
