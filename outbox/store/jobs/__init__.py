"""Jobs: an action on all emails that a filter finds, done by sweeps in small steps."""
