"""What the tasks of one process do together: sweep, and record their results."""
