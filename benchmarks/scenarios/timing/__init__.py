"""When an email leaves: soon after its commit, before the bulk, and at the pace of a rate."""
