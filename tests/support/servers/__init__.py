"""Real servers on loopback, one file each; every one stops with the test run, whatever ends it."""
