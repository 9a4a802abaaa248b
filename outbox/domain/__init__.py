"""The rules, with no I/O: what an email may be, where it may go next, and what each reply means."""
