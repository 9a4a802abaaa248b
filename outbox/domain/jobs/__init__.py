"""What a job does to all emails that a filter finds, how far it is, and in which steps."""
