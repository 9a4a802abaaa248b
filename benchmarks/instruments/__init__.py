"""What scenarios measure with: the work of a sweep, and what each part of a system uses."""
