"""The counts of attempts: written with the attempt log, summed up by the sweep, read as figures."""
