"""What the tasks of one process do together: sweep, record their results, and what one does for all."""
