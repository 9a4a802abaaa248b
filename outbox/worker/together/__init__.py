"""What the tasks of one process share: sweeps, records, and what one has done or asked for all."""
