"""The rules, with no I/O: what a mail may be, where it may go next, and what each reply means."""
