"""What people install: the wheel, the sdist, and the versions that both say they work with."""
