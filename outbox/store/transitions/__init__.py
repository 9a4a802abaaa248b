"""One file for each arrow of an email's lifecycle, and nothing else."""
