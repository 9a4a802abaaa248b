"""Jobs: an action on all emails that a filter finds, which sweeps do in small steps."""
